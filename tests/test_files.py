"""Atomic writes, the cache folder, and locks between processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from privaware._files import atomic_file, atomic_write, cache_folder, ledger_folder, locked


def test_atomic_write_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    atomic_write(path, b"old")
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert [item.name for item in tmp_path.iterdir()] == ["model.json"]


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    atomic_write(path, b"old")
    with pytest.raises(TypeError), atomic_file(path) as file:
        file.writelines([b"half of the n", "ew"])  # type: ignore[list-item]
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["model.json"]


def test_killed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    atomic_write(path, b"old")
    dies = """
        import os, sys
        from privaware._files import atomic_file
        with atomic_file(sys.argv[1]) as file:
            file.write(b"half of the n")
            file.flush()
            os._exit(9)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(dies), str(path)]).returncode == 9
    assert path.read_bytes() == b"old"
    atomic_write(path, b"new")
    assert [item.name for item in tmp_path.iterdir()] == ["model.json"]


def test_content_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("replace"), replace(*paths)))
    atomic_write(tmp_path / "a", b"content")
    assert calls == ["fsync", "replace"]


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_second_writer_of_a_file_waits_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "predictions.csv"
    with ThreadPoolExecutor(1) as other:
        with atomic_file(path) as file:
            file.write(b"half of the f")
            second = other.submit(atomic_write, path, b"second")
            with pytest.raises(TimeoutError):
                second.result(timeout=0.1)
            assert not path.exists()
            file.write(b"irst")
        assert second.result(timeout=10) is None
    assert path.read_bytes() == b"second"
    assert [item.name for item in tmp_path.iterdir()] == ["predictions.csv"]


def test_file_that_was_there_first_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "predictions.csv"
    with pytest.raises(FileExistsError), atomic_file(path, overwrite=False):
        path.write_bytes(b"first")
    assert path.read_bytes() == b"first"
    assert [item.name for item in tmp_path.iterdir()] == ["predictions.csv"]
    with atomic_file(tmp_path / "new", overwrite=False) as file:
        file.write(b"new")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["new", "predictions.csv"]


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_atomic_write_sets_the_mode_and_replaces_links(tmp_path: Path) -> None:
    secret, link = tmp_path / "secret", tmp_path / "link"
    atomic_write(secret, b"state", mode=0o600)
    assert secret.stat().st_mode & 0o777 == 0o600
    link.symlink_to(secret)
    atomic_write(link, b"new")
    assert not link.is_symlink()
    assert secret.read_bytes() == b"state"
    (tmp_path / "other.partial").symlink_to(secret)
    atomic_write(tmp_path / "other", b"new")
    assert secret.read_bytes() == b"state"


def test_cache_folder_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVAWARE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("PRIVAWARE_CACHE")
    assert "privaware" in cache_folder().parts


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG folders")
def test_cache_folder_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVAWARE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "privaware"


TRIES = """
import sys
from privaware._files import locked
try:
    with locked(sys.argv[1]):
        print("held")
except BlockingIOError:
    print("blocked")
"""


def tries(folder: Path) -> str:
    process = subprocess.run([sys.executable, "-c", TRIES, str(folder)], capture_output=True, text=True, check=True)
    return process.stdout.strip()


def test_lock_holds_against_another_process_and_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with locked(folder):
        assert tries(folder) == "blocked"
        with pytest.raises(BlockingIOError), locked(folder):
            pass
    assert tries(folder) == "held"
    assert [item.name for item in tmp_path.rglob("*")] == ["model"]


def test_lock_without_folder_locks_uses_a_file_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privaware._files.LOCKS_FOLDERS", False)
    folder = tmp_path / "model"
    with locked(folder):
        assert (tmp_path / ".model.lock").exists()
        with pytest.raises(BlockingIOError), locked(folder):
            pass
        assert list(folder.iterdir()) == []
    with locked(folder):
        pass


def test_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    dies = "import os, sys\nfrom privaware._files import locked\nwith locked(sys.argv[1]):\n    os._exit(9)"
    assert subprocess.run([sys.executable, "-c", dies, str(tmp_path / "model")]).returncode == 9
    with locked(tmp_path / "model"):
        pass


def test_ledger_folder_is_named_or_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ledger_folder() != cache_folder()
    monkeypatch.setenv("PRIVAWARE_LEDGERS", str(tmp_path))
    assert ledger_folder() == tmp_path
    monkeypatch.delenv("PRIVAWARE_LEDGERS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in ledger_folder().parents
