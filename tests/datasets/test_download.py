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

import pytest

from privaware.datasets import _download
from privaware.datasets._download import File, locate, present
from privaware.errors import WrongInput

BODY = b"public rows\n" * 1000
SUM = hashlib.sha256(BODY).hexdigest()


class Answer(BaseHTTPRequestHandler):
    """Serves BODY; /short promises more than it sends; anything else is missing."""

    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path not in ("/good", "/also", "/short"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY) * (2 if self.path == "/short" else 1)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no given data; the local server is never asked through a proxy."""
    monkeypatch.delenv("PRIVAWARE_DATA", raising=False)
    monkeypatch.setenv("PRIVAWARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path


@pytest.fixture
def server() -> Iterator[str]:
    Answer.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def left(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*"))


def test_download_with_the_right_checksum_is_kept_and_not_asked_for_again(
    home: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (File(name="sub/rows.csv", urls=(f"{server}/good",), sha256=SUM),)
    folder = locate("toy", files)
    assert (folder / "sub" / "rows.csv").read_bytes() == BODY
    assert left(home) == ["cache", "cache/toy", "cache/toy/sub", "cache/toy/sub/rows.csv"]
    assert locate("toy", files) == folder
    assert Answer.asked == ["/good"]
    told = capsys.readouterr()
    assert "fetching toy" in told.err
    assert told.out == ""


def test_download_with_a_different_checksum_is_refused_and_removed(home: Path, server: str) -> None:
    files = (File(name="sub/rows.csv", urls=(f"{server}/good",), sha256="0" * 64),)
    with pytest.raises(WrongInput, match=f"expected SHA-256 0+.*has {SUM}.*removed"):
        locate("toy", files)
    assert left(home) == ["cache"]


def test_download_without_a_known_checksum_is_never_begun(home: Path, server: str) -> None:
    with pytest.raises(WrongInput, match=r"no checksum is known.*PRIVAWARE_DATA/toy"):
        locate("toy", (File(name="rows.csv", urls=(f"{server}/good",)),))
    assert Answer.asked == []
    assert left(home) == []


def test_download_cut_short_leaves_nothing_behind(home: Path, server: str) -> None:
    files = (File(name="rows.csv", urls=(f"{server}/short",), sha256=SUM),)
    with pytest.raises(WrongInput, match="cannot be reached"):
        locate("toy", files)
    assert left(home) == ["cache"]


def test_interrupted_download_leaves_nothing_behind(home: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def halted(url: str) -> Iterator[bytes]:
        yield BODY[:100]
        raise KeyboardInterrupt

    monkeypatch.setattr(_download, "_chunks", halted)
    with pytest.raises(KeyboardInterrupt):
        locate("toy", (File(name="rows.csv", urls=(f"{server}/good",), sha256=SUM),))
    assert left(home) == ["cache"]


def test_without_a_network_one_sentence_names_both_ways_out(home: Path) -> None:
    files = (File(name="rows.csv", urls=("http://127.0.0.1:9/rows.csv",), sha256=SUM),)
    with pytest.raises(WrongInput) as caught:
        locate("toy", files)
    sentence = str(caught.value)
    assert "set PRIVAWARE_DATA" in sentence
    assert "run where there is a network" in sentence
    assert "\n" not in sentence
    assert left(home) == ["cache"]


def test_the_next_mirror_is_asked_when_one_does_not_answer(server: str) -> None:
    file = File(name="rows.csv", urls=(f"{server}/gone", f"{server}/good"), sha256=SUM)
    assert (locate("toy", (file,)) / "rows.csv").read_bytes() == BODY
    assert Answer.asked == ["/gone", "/good"]


def test_given_files_come_first_and_are_taken_as_they_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (File(name="rows.csv", sha256=SUM),)
    for where, body in (("given", b"rebuilt"), ("cache", BODY)):
        (home / where / "toy").mkdir(parents=True)
        (home / where / "toy" / "rows.csv").write_bytes(body)
    assert locate("toy", files) == home / "cache" / "toy"
    monkeypatch.setenv("PRIVAWARE_DATA", str(home / "given"))
    assert locate("toy", files) == home / "given" / "toy"


def test_a_folder_that_lacks_a_file_does_not_count_as_present(
    home: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (File(name="a", urls=(f"{server}/good",), sha256=SUM), File(name="b", urls=(f"{server}/also",), sha256=SUM))
    monkeypatch.setenv("PRIVAWARE_DATA", str(home / "given"))
    (home / "given" / "toy").mkdir(parents=True)
    (home / "given" / "toy" / "a").write_bytes(BODY)
    assert present("toy", files) is None
    assert present("toy", files[:1]) == home / "given" / "toy"
    assert sorted(path.name for path in locate("toy", files).iterdir()) == ["a", "b"]
    assert Answer.asked == ["/good", "/also"], "a download goes into the cache, never beside given files"


def archive(kind: str, path: Path) -> str:
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as made:
            made.writestr("in/rows.csv", BODY)
    else:
        with tarfile.open(path, "w:gz") as tar:
            member = tarfile.TarInfo("in/rows.csv")
            member.size = len(BODY)
            tar.addfile(member, io.BytesIO(BODY))
            tar.addfile(tarfile.TarInfo("../../escape"), io.BytesIO())
    return path.as_uri()


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_member_of_an_archive_is_checked_by_its_own_checksum(
    kind: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = archive(kind, home / "made")
    files = tuple(File(name=name, urls=(url,), sha256=SUM, member="in/rows.csv") for name in ("a", "b"))
    folder = locate("toy", files)
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes() == BODY
    assert left(home) == ["cache", "cache/toy", "cache/toy/a", "cache/toy/b", "made"]
    assert capsys.readouterr().err.count("fetching") == 1, "one archive is one download"


@pytest.mark.parametrize("kind", ["zip", "tar", "neither", "truncated"])
def test_an_archive_without_the_member_is_refused(kind: str, home: Path) -> None:
    made = home / "made"
    url = archive("tar" if kind == "truncated" else kind, made)
    member = "in/rows.csv" if kind in ("neither", "truncated") else "in/other.csv"
    if kind == "neither":
        made.write_bytes(BODY)
    if kind == "truncated":
        made.write_bytes(made.read_bytes()[:60])
    with pytest.raises(WrongInput, match="expected an archive that holds"):
        locate("toy", (File(name="rows.csv", urls=(url,), sha256=SUM, member=member),))
    assert left(home) == ["cache", "made"]


def test_a_cache_that_cannot_be_written_is_one_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_bytes(b"")
    monkeypatch.setenv("PRIVAWARE_CACHE", str(home / "file"))
    with pytest.raises(WrongInput, match=r"cannot write to the cache.*PRIVAWARE_CACHE"):
        locate("toy", (File(name="a", urls=((home / "file").as_uri(),), sha256=SUM),))


@pytest.mark.parametrize("name", ["", "../rows.csv", "/etc/rows.csv", "a/../../b"])
def test_a_file_never_leaves_its_folder(name: str) -> None:
    with pytest.raises(WrongInput, match="inside its folder"):
        File(name=name)


def test_a_checksum_that_is_none_is_refused_at_birth() -> None:
    with pytest.raises(WrongInput, match="64 hexadecimal digits"):
        File(name="a", sha256="abc")
