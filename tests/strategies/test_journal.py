"""A search interrupted and resumed: nothing is trained or scored twice, and nothing is taken from another search."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from privaware.noise import Rng
from privaware.strategies._journal import SearchJournal
from privaware.strategies._search import Search
from privaware.strategies._workers import Here
from privaware.strategies.grid import Grid
from privaware.strategies.mgrs import Mgrs
from privaware.strategies.paas import Paas
from privaware.strategies.rs import Rs
from privaware.testing import rows_for
from privaware.testing._strategy import Votes
from tests.strategies.candidates import SCHEMA, VOTES, votes


@dataclass(frozen=True, kw_only=True)
class Counted(Votes):
    """Notes every training in a file, and dies in the third (a search may have no more) when a second file says so."""

    log: str = ""

    def run(self, data: Any, noise: float, rng: Rng) -> Any:
        with open(self.log, "a") as file:
            file.write(f"{self.weight} {self.power}\n")
        if Path(self.log + ".die").exists() and len(Path(self.log).read_text().splitlines()) > 2:
            raise KeyboardInterrupt
        return super().run(data, noise, rng)


@pytest.mark.parametrize("strategy", [Paas(generations=4, population=4), Mgrs(generations=(8, 8, 8))])
@pytest.mark.parametrize("seed", [5, None])
def test_resumed_search_trains_and_scores_nothing_twice(strategy: Any, seed: int | None, tmp_path: Path) -> None:
    log = tmp_path / "log"
    search = Search(
        space=VOTES,
        strategy=strategy,
        held_out=0.3,
        population_size=2,
        journal=tmp_path / "journal",
        build=lambda settings: Counted(**settings, log=str(log)),
    )
    data = rows_for(SCHEMA, 400)
    Path(f"{log}.die").touch()
    with pytest.raises(KeyboardInterrupt):
        search.run(data, 2.0, Rng(seed=seed))
    before = {path.name: path.read_bytes() for path in (tmp_path / "journal").glob("round*")}
    trained = len(log.read_text().splitlines())
    assert before
    Path(f"{log}.die").unlink()
    log.unlink()
    resumed = search.run(data, 2.0, Rng(seed=seed))
    retrained = len(log.read_text().splitlines())
    for name, content in before.items():
        assert (tmp_path / "journal" / name).read_bytes() == content
    journal = SearchJournal(tmp_path / "journal")
    stored = sum(len(journal.find(Path(name).stem, SCHEMA) or ()) for name in before)
    assert trained - stored <= 2  # at most the job that was killed is repeated
    if seed is not None:
        log.unlink()
        uninterrupted = replace(search, journal=None).run(data, 2.0, Rng(seed=seed))
        assert (uninterrupted.point, uninterrupted.score) == (resumed.point, resumed.score)
        assert len(log.read_text().splitlines()) == retrained + stored


def _killed(search: Search, data: Any, log: Path) -> None:
    Path(f"{log}.die").touch()
    with pytest.raises(KeyboardInterrupt):
        search.run(data, 2.0, Rng(seed=5))
    Path(f"{log}.die").unlink()
    log.unlink()


def test_search_resumes_with_fewer_workers(tmp_path: Path) -> None:
    log = tmp_path / "log"
    search = Search(
        space=VOTES,
        strategy=Paas(generations=3, population=6),
        held_out=0.3,
        workers=Here(capacity=6),
        journal=tmp_path / "journal",
        build=lambda settings: Counted(**settings, log=str(log)),
    )
    data = rows_for(SCHEMA, 400)
    _killed(search, data, log)
    resumed = replace(search, workers=Here()).run(data, 2.0, Rng(seed=5))
    retrained = len(log.read_text().splitlines())
    log.unlink()
    uninterrupted = replace(search, journal=None).run(data, 2.0, Rng(seed=5))
    assert (uninterrupted.point, uninterrupted.score) == (resumed.point, resumed.score)
    assert len(log.read_text().splitlines()) == retrained + 2


@pytest.mark.parametrize("changed", ["rows", "order of rows", "space"])
def test_journal_of_other_rows_or_candidates_is_discarded(changed: str, tmp_path: Path) -> None:
    """A row that trained a model of the first run could otherwise score in the second."""
    log = tmp_path / "log"
    search = Search(
        space=VOTES,
        strategy=Grid(trials=6),
        held_out=0.3,
        population_size=1,
        journal=tmp_path / "journal",
        build=lambda settings: Counted(**settings, log=str(log)),
    )
    data = rows_for(SCHEMA, 400)
    _killed(search, data, log)
    if changed == "space":
        other = replace(VOTES, choices={**VOTES.choices, "power": (5.0, 6.0, 7.0, 8.0)})
        search = replace(search, space=other)
    else:
        rows = data.x[::-1] if changed == "order of rows" else data.x + 1
        data = replace(data, x=rows.copy())
    resumed = search.run(data, 2.0, Rng(seed=6))
    assert len(log.read_text().splitlines()) == 6
    uninterrupted = replace(search, journal=None).run(data, 2.0, Rng(seed=6))
    assert (uninterrupted.point, uninterrupted.score) == (resumed.point, resumed.score)


def test_journal_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    search = Search(space=VOTES, strategy=Rs(trials=3), build=votes, journal=place)
    search.run(rows_for(SCHEMA, 100), 2.0, Rng(seed=0))
    assert all(path.stat().st_mode & 0o077 == 0 for path in (place, *place.iterdir()))


def test_p55_a_job_of_another_search_is_not_read(tmp_path: Path) -> None:
    search = Search(space=VOTES, strategy=Rs(trials=3), build=votes, journal=tmp_path / "one")
    search.run(rows_for(SCHEMA, 60), 2.0, Rng(seed=1))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    jobs = [path.stem for path in (tmp_path / "two").glob("round*")]
    assert jobs
    assert all(SearchJournal(tmp_path / "one").find(job, SCHEMA) for job in jobs)
    assert not any(SearchJournal(tmp_path / "two").find(job, SCHEMA) for job in jobs)
