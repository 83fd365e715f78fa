"""Public files are found, or downloaded and checked, or nothing is left behind."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from privaware.datasets._download import File, locate, present
from privaware.errors import WrongInput

BODY = b"public rows\n" * 1000
SUM = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves what `content` holds; /short promises twice the bytes it sends; anything else is missing."""

    content: dict[str, bytes] = {}
    requested: list[str] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        if self.path not in self.content:
            self.send_error(404)
            return
        body = self.content[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) * (2 if self.path == "/short" else 1)))
        if "identity" not in self.headers["Accept-Encoding"]:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no PRIVAWARE_DATA; the local server is never asked through a proxy."""
    monkeypatch.delenv("PRIVAWARE_DATA", raising=False)
    monkeypatch.setenv("PRIVAWARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path


@pytest.fixture
def server() -> Iterator[str]:
    Handler.requested = []
    Handler.content = {"/good": BODY, "/also": BODY, "/short": BODY}
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def files_under(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*"))


def test_download_with_matching_checksum_is_kept(home: Path, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = (File(name="sub/rows.csv", urls=(f"{server}/good",), sha256=SUM),)
    folder = locate("toy", files)
    assert (folder / "sub" / "rows.csv").read_bytes() == BODY
    assert (folder / "sub" / "rows.csv").stat().st_mode & 0o444 == 0o444, "a shared cache is readable by others"
    assert files_under(home) == ["cache", "cache/toy", "cache/toy/sub", "cache/toy/sub/rows.csv"]
    assert locate("toy", files) == folder
    assert Handler.requested == ["/good"]
    captured = capsys.readouterr()
    assert captured.err == f"fetching toy: {server}/good\n"
    assert captured.out == ""


def test_download_with_another_checksum_is_refused_and_removed(home: Path, server: str) -> None:
    files = (File(name="sub/rows.csv", urls=(f"{server}/good",), sha256="0" * 64),)
    with pytest.raises(WrongInput, match=f"^toy: SHA256 .*rows.csv.*expected 0+ but got {SUM}, so it was removed"):
        locate("toy", files)
    assert files_under(home) == ["cache"]


def test_download_without_a_known_checksum_is_never_started(home: Path, server: str) -> None:
    with pytest.raises(WrongInput, match=r"no checksum is known.*PRIVAWARE_DATA/toy"):
        locate("toy", (File(name="rows.csv", urls=(f"{server}/good",)),))
    assert Handler.requested == []
    assert files_under(home) == []


def test_truncated_download_leaves_nothing_behind(home: Path, server: str) -> None:
    files = (File(name="rows.csv", urls=(f"{server}/short",), sha256=SUM),)
    with pytest.raises(WrongInput, match=r"cannot be reached \(Connection broken: IncompleteRead"):
        locate("toy", files)
    assert files_under(home) == ["cache"]


def test_interrupted_download_leaves_nothing_behind(home: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: object, url: str, output: str, pooch: object) -> None:
        Path(output).write_bytes(BODY[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        locate("toy", (File(name="rows.csv", urls=(f"{server}/good",), sha256=SUM),))
    assert files_under(home) == ["cache"]


def test_unreachable_origin_names_folder_variable_and_network(home: Path) -> None:
    files = (File(name="rows.csv", urls=("http://127.0.0.1:9/rows.csv",), sha256=SUM),)
    with pytest.raises(WrongInput) as caught:
        locate("toy", files)
    sentence = str(caught.value)
    assert "set PRIVAWARE_DATA" in sentence
    assert "run where there is a network" in sentence
    assert "(Connection refused)" in sentence
    assert "\n" not in sentence
    assert files_under(home) == ["cache"]


def test_next_mirror_is_tried_when_one_fails(server: str) -> None:
    file = File(name="rows.csv", urls=(f"{server}/gone", f"{server}/good"), sha256=SUM)
    assert (locate("toy", (file,)) / "rows.csv").read_bytes() == BODY
    assert Handler.requested == ["/gone", "/good"]


def test_files_in_privaware_data_come_first_and_are_not_checked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (File(name="rows.csv", sha256=SUM),)
    for where, body in (("local", b"rebuilt"), ("cache", BODY)):
        (home / where / "toy").mkdir(parents=True)
        (home / where / "toy" / "rows.csv").write_bytes(body)
    assert locate("toy", files) == home / "cache" / "toy"
    monkeypatch.setenv("PRIVAWARE_DATA", str(home / "local"))
    assert locate("toy", files) == home / "local" / "toy"


def test_incomplete_folder_is_not_present(home: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (File(name="a", urls=(f"{server}/good",), sha256=SUM), File(name="b", urls=(f"{server}/also",), sha256=SUM))
    monkeypatch.setenv("PRIVAWARE_DATA", str(home / "local"))
    (home / "local" / "toy").mkdir(parents=True)
    (home / "local" / "toy" / "a").write_bytes(BODY)
    assert present("toy", files) is None
    assert present("toy", files[:1]) == home / "local" / "toy"
    assert sorted(path.name for path in locate("toy", files).iterdir()) == ["a", "b"]
    assert Handler.requested == ["/good", "/also"], "a download goes into the cache, never into PRIVAWARE_DATA"


def archive(kind: str) -> bytes:
    content = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(content, "w") as zipped:
            zipped.writestr("in/rows.csv", BODY)
    else:
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            member = tarfile.TarInfo("in/rows.csv")
            member.size = len(BODY)
            tar.addfile(member, io.BytesIO(BODY))
            tar.addfile(tarfile.TarInfo("../../escape"), io.BytesIO())
    return content.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_member_of_an_archive_is_checked_by_its_own_checksum(
    kind: str, home: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Handler.content["/archive"] = archive(kind)
    files = tuple(
        File(name=name, urls=(f"{server}/gone", f"{server}/archive"), sha256=SUM, member="in/rows.csv")
        for name in ("a", "b")
    )
    folder = locate("toy", files)
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes() == BODY
    assert files_under(home) == ["cache", "cache/toy", "cache/toy/a", "cache/toy/b"]
    assert Handler.requested.count("/archive") == 1, "one archive is one download"
    assert capsys.readouterr().err.count("/archive") == 1


def test_member_with_another_checksum_is_refused_and_removed(home: Path, server: str) -> None:
    Handler.content["/archive"] = archive("zip")
    file = File(name="rows.csv", urls=(f"{server}/archive",), sha256="0" * 64, member="in/rows.csv")
    with pytest.raises(WrongInput, match=f"^toy: SHA256 .*expected 0+ but got {SUM}, so it was removed"):
        locate("toy", (file,))
    assert files_under(home) == ["cache"]


@pytest.mark.parametrize("kind", ["zip", "tar", "neither", "truncated"])
def test_archive_without_the_member_is_refused(kind: str, home: Path, server: str) -> None:
    content = {"neither": BODY, "truncated": archive("tar")[:60]}
    Handler.content["/archive"] = content[kind] if kind in content else archive(kind)
    member = "in/rows.csv" if kind in content else "in/other.csv"
    with pytest.raises(WrongInput, match=r"^toy: expected an archive that holds .*yourself$"):
        locate("toy", (File(name="rows.csv", urls=(f"{server}/archive",), sha256=SUM, member=member),))
    assert files_under(home) == ["cache"]


def test_unwritable_cache_is_refused_with_one_sentence(
    home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").write_bytes(b"")
    monkeypatch.setenv("PRIVAWARE_CACHE", str(home / "file"))
    with pytest.raises(WrongInput, match=r"cannot write to the cache.*PRIVAWARE_CACHE"):
        locate("toy", (File(name="a", urls=(f"{server}/good",), sha256=SUM),))


@pytest.mark.parametrize("name", ["", "../rows.csv", "/etc/rows.csv", "a/../../b"])
def test_file_outside_its_folder_is_refused(name: str) -> None:
    with pytest.raises(WrongInput, match="inside its folder"):
        File(name=name)


def test_malformed_checksum_is_refused() -> None:
    with pytest.raises(WrongInput, match="64 hexadecimal digits"):
        File(name="a", sha256="abc")
