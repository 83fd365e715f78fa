"""The registry of digests: one key for each user, one list of ledgers for each digest."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from privaware.errors import WrongInput
from privaware.events import Pure
from privaware.ledger import Ledger, digest_key, known_ledgers, memory_ledger, register, spent_together

DIGEST = "0" * 32


def test_key_is_made_once_also_by_several_threads() -> None:
    keys: set[bytes] = set()
    threads = [threading.Thread(target=lambda: keys.add(digest_key())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 1
    assert sorted(path.name for path in memory_ledger(DIGEST).parent.iterdir()) == ["key"]


def test_damaged_key_is_refused() -> None:
    digest_key()
    (Path(os.environ["PRIVAWARE_LEDGERS"]) / "key").write_bytes(b"short")
    with pytest.raises(WrongInput, match=r"expected 32 bytes .* got 5"):
        digest_key()


@pytest.mark.parametrize("place", ["file", "file/ledgers"])
def test_folder_that_cannot_be_made_is_refused_by_name(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRIVAWARE_LEDGERS", str(tmp_path / place))
    with pytest.raises(WrongInput, match="PRIVAWARE_LEDGERS"):
        digest_key()


def test_ledger_is_known_once_and_only_while_it_is_the_same(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", limit=1.0)
    for _ in range(2):
        register(DIGEST, ledger)
    (known,) = known_ledgers(DIGEST)
    assert known.open() == ledger
    assert known_ledgers("1" * 32) == []
    ledger.path.unlink()
    assert known.open() is None
    Ledger.create(tmp_path / "a.ledger", limit=1.0)
    assert known.open() is None


def test_ledgers_compose_and_their_disjoint_parts_stay_disjoint(tmp_path: Path) -> None:
    first = Ledger.create(tmp_path / "a.ledger", limit=9.0, partitions=("left", "right"))
    second = Ledger.create(tmp_path / "b.ledger", limit=9.0, partitions=("left", "right"))
    first.spend(Pure(epsilon=1.0), what="a", partition="left")
    first.spend(Pure(epsilon=1.0), what="b", partition="right")
    second.spend(Pure(epsilon=1.0), what="c", partition="right")
    assert first.spent() == pytest.approx(1.0, rel=1e-3)
    assert spent_together((first, second), 1e-9) == pytest.approx(2.0, rel=1e-3)
    assert spent_together((first, first), 1e-9) == pytest.approx(1.0, rel=1e-3)
    assert spent_together((first, second), 1e-9, Pure(epsilon=1.0)) == pytest.approx(3.0, rel=1e-3)


def registered(tmp_path: Path) -> Ledger:
    ledger = Ledger.create(tmp_path / "a.ledger", limit=9.0)
    register(DIGEST, ledger)
    return ledger


def lines_of(digest: str) -> Path:
    return Path(os.environ["PRIVAWARE_LEDGERS"]) / f"{digest}.ledgers"


@pytest.mark.parametrize("torn", [b'{"path": "/tmp/x.led', b"\xff\xfe\x00", b"[]\n", b'\n\n{"path": "half"\n'])
def test_torn_line_costs_one_warning_and_no_later_run(tmp_path: Path, torn: bytes) -> None:
    ledger = registered(tmp_path)
    with lines_of(DIGEST).open("ab") as file:
        file.write(torn)
    with pytest.warns(UserWarning, match="was torn"):
        assert [known.path for known in known_ledgers(DIGEST)] == [ledger.path]
    assert [known.path for known in known_ledgers(DIGEST)] == [ledger.path]
    other = Ledger.create(tmp_path / "b.ledger", limit=1.0)
    register(DIGEST, other)
    assert [known.path for known in known_ledgers(DIGEST)] == [ledger.path, other.path]


def test_line_after_a_torn_one_is_not_lost(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    with lines_of(DIGEST).open("ab") as file:
        file.write(b'{"path": "/tmp/x')
    other = Ledger.create(tmp_path / "b.ledger", limit=1.0)
    with pytest.warns(UserWarning, match="was torn"):
        register(DIGEST, other)
    assert [known.path for known in known_ledgers(DIGEST)] == [ledger.path, other.path]


def test_line_without_a_path_is_passed_over(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    with lines_of(DIGEST).open("ab") as file:
        file.write(b'{"path": 3, "genesis": "x"}\n{"other": 1}\n')
    assert [known.path for known in known_ledgers(DIGEST)] == [ledger.path]


def test_rolled_back_ledger_is_refused_by_every_call(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    ledger.spend(Pure(epsilon=1.0), what="first")
    older = ledger.path.read_bytes()
    ledger.spend(Pure(epsilon=1.0), what="second")
    assert ledger.spent() == pytest.approx(2.0, rel=1e-3)
    ledger.path.write_bytes(older)
    calls = [
        lambda: Ledger.open(ledger.path),
        ledger.spent,
        lambda: ledger.spend(Pure(epsilon=1.0), what="third"),
        lambda: ledger.set_limit(20.0),
        lambda: known_ledgers(DIGEST)[0].open(),
        lambda: Ledger.open_or_create(ledger.path),
    ]
    for call in calls:
        with pytest.raises(WrongInput, match=r"lacks 1 entry that it had before, .*--restore"):
            call()
    assert ["lacks 1 entry" in problem for problem in Ledger.verify(ledger.path)] == [True]
    assert ledger.path.read_bytes() == older


def test_lost_closing_entry_is_noticed(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    ledger.spend(Pure(epsilon=1.0), what="first", run="a")
    older = ledger.path.read_bytes()
    ledger.finish("a")
    ledger.path.write_bytes(older)
    with pytest.raises(WrongInput, match="lacks 1 entry"):
        ledger.spend(Pure(epsilon=1.0), what="first", run="a")


def test_restored_ledger_has_spent_what_was_spent(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    older = ledger.path.read_bytes()
    ledger.set_limit(12.0)
    ledger.spend(Pure(epsilon=1.0), what="first", run="a")
    ledger.finish("a")
    ledger.path.write_bytes(older)
    written = Ledger.restore(ledger.path)
    assert [entry.kind for entry in written] == ["limit", "spend", "finished"]
    assert all(entry.what.startswith("restored entry ") for entry in written)
    assert (ledger.spent(), ledger.limit) == (pytest.approx(1.0, rel=1e-3), 12.0)
    assert Ledger.verify(ledger.path) == []
    with pytest.raises(WrongInput, match="nothing to restore"):
        Ledger.restore(ledger.path)
    with pytest.raises(WrongInput, match="already ended"):
        ledger.spend(Pure(epsilon=1.0), what="first", run="a")


def test_ledger_restored_twice_and_its_newest_file_count_once(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    older = ledger.path.read_bytes()
    ledger.spend(Pure(epsilon=1.0), what="first")
    newest = ledger.path.read_bytes()
    for content in (older, older, newest):
        ledger.path.write_bytes(content)
        if content == older:
            Ledger.restore(ledger.path)
        assert ledger.spent() == pytest.approx(1.0, rel=1e-3)


def test_ledger_that_no_rows_are_known_of_leaves_no_copy(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "a.ledger", limit=1.0).spend(Pure(epsilon=1.0), what="first")
    assert not Path(os.environ["PRIVAWARE_LEDGERS"]).exists()


def test_files_of_the_registry_are_for_their_owner_only(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    register("1" * 32, ledger, b"sketch")
    digest_key()
    folder = Path(os.environ["PRIVAWARE_LEDGERS"])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.suffix: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        ".ledgers": 0o600,
        ".entries": 0o600,
        ".sketch": 0o600,
        "": 0o600,
    }


# A strange place, and trouble on the way to it.


def test_many_writers_lose_no_line(tmp_path: Path) -> None:
    ledgers = [Ledger.create(tmp_path / f"{at}.ledger", limit=1.0) for at in range(24)]
    threads = [threading.Thread(target=register, args=(DIGEST, ledger)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {known.path for known in known_ledgers(DIGEST)} == {ledger.path for ledger in ledgers}


def test_entries_of_many_writers_are_never_taken_for_lost(tmp_path: Path) -> None:
    ledger = registered(tmp_path)
    problems: list[Exception] = []

    def spend() -> None:
        try:
            for _ in range(5):
                ledger.spend(Pure(epsilon=0.01), what="a count")
                Ledger.open(ledger.path)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(ledger.entries()) == 21


def test_full_disk_leaves_no_torn_line_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = registered(tmp_path)
    before = lines_of(DIGEST).read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:10]))
    with pytest.raises(WrongInput, match=r"cannot keep digests of rows in .* No space left on device"):
        register(DIGEST, Ledger.create(tmp_path / "b.ledger", limit=1.0))
    assert lines_of(DIGEST).read_bytes() == before
    with pytest.warns(UserWarning, match="entry 1 of the ledger is written but not copied"):
        ledger.spend(Pure(epsilon=1.0), what="first")  # the charge stands
    monkeypatch.setattr(os, "write", write)
    assert ledger.spent() == pytest.approx(1.0, rel=1e-3)


def test_folder_that_cannot_be_written_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", limit=1.0)
    digest_key()
    open_file = os.open

    def read_only(path: object, flags: int, *more: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and "ledgers" in str(path):
            raise OSError(30, "Read-only file system")
        return open_file(path, flags, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(WrongInput, match=r"Read-only file system; name another folder in PRIVAWARE_LEDGERS"):
        register(DIGEST, ledger)


def test_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    digest_key()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(WrongInput, match="this user alone can write to"):
        digest_key()


def test_folder_that_others_can_write_to_is_refused() -> None:
    digest_key()
    Path(os.environ["PRIVAWARE_LEDGERS"]).chmod(0o777)
    with pytest.raises(WrongInput, match="this user alone can write to"):
        known_ledgers(DIGEST)


def test_key_that_others_can_read_is_refused() -> None:
    digest_key()
    (Path(os.environ["PRIVAWARE_LEDGERS"]) / "key").chmod(0o644)
    with pytest.raises(WrongInput, match=r"only its owner can open .* got mode 644"):
        digest_key()


@pytest.mark.parametrize("place", ["ledgers", "~/ledgers", "./x"])
def test_registry_does_not_depend_on_the_working_directory(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVAWARE_LEDGERS", place)
    with pytest.raises(WrongInput, match="expected an absolute path in PRIVAWARE_LEDGERS"):
        digest_key()
    assert list(tmp_path.iterdir()) == []
