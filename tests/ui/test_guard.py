"""Only the holder of the token, on this machine and from this page, is answered."""

from __future__ import annotations

import re

import pytest

from tests.ui.server import TOKEN, Served


def test_every_answer_forbids_what_the_page_does_not_need(page: Served) -> None:
    for path, token in (("", TOKEN), ("", "wrong"), ("plan", TOKEN), ("nowhere", TOKEN)):
        _, _, headers = page.ask(f"/{token}/{path}")
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path", ["/", "/plan", "/wrong/", f"/{TOKEN}", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", f"/x/{TOKEN}/", "/style.css", "//"]
)
def test_request_without_the_token_gets_nothing(page: Served, path: str) -> None:
    assert page.ask(path)[:2] == (403, "")
    assert page.ask(path, form={"data": "wisconsin"})[:2] == (403, "")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""])
def test_foreign_host_gets_nothing_even_with_the_token(page: Served, host: str) -> None:
    """A name of the attacker's that points to this machine."""
    assert page.ask(f"/{TOKEN}/", Host=host.format(port=page.port))[:2] == (403, "")


def test_own_hosts_are_answered(page: Served) -> None:
    for host in (f"127.0.0.1:{page.port}", f"localhost:{page.port}"):
        assert page.ask(f"/{TOKEN}/", Host=host)[0] == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_form_of_another_page_is_refused(page: Served, headers: dict[str, str]) -> None:
    assert page.ask(f"/{TOKEN}/model/model", form={"ledger": ""}, **headers)[:2] == (403, "")


def test_form_of_the_page_itself_is_answered(page: Served) -> None:
    status, text, _ = page.ask(f"/{TOKEN}/plan", form={"data": "wisconsin"}, Origin=f"http://127.0.0.1:{page.port}")
    assert status == 200
    assert "epsilon" in text


def test_other_methods_are_refused(page: Served) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert page.ask(f"/{TOKEN}/", method=method)[0] == 403


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "people.csv", "model/model.json", "/etc"]
)
@pytest.mark.parametrize("kind", ["ledger", "model", "report"])
def test_only_what_was_found_in_the_folder_is_opened(page: Served, kind: str, name: str) -> None:
    status, text, _ = page.ask(f"/{TOKEN}/{kind}/{name}")
    assert status == 400
    assert "expected the name of something in this folder" in text


def test_token_is_on_no_page(page: Served) -> None:
    """Addresses on a page are relative: a saved or printed page does not hand the token on."""
    for path in ("", "plan", "model/model"):
        assert TOKEN not in page.ask(f"/{TOKEN}/{path}")[1]
    assert not re.search(r"https?://", page.ask(f"/{TOKEN}/")[1])
