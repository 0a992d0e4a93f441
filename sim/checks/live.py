"""What runs show: published state only goes forward, and streams lose, double and mix nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sim.checks.streams import STREAM
from sim.coroutines import at_once
from stepwell.codec.base import ANY
from stepwell.codec.json_codec import JsonCodec
from stepwell.engine.live import StreamItem, StreamReader, StreamReset
from stepwell.ids import RunId
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.live import Page, Published
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.stores.base.views import Detail

if TYPE_CHECKING:
    from sim.checker import Checker
    from sim.world import World

_ALL = 1_000_000


class Live:
    """The checker's own record of what runs show, and a reader of every stream that now and then looks."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._states: defaultdict[str, dict[str, Published]] = defaultdict(dict)
        self._applied: dict[str, tuple[int, int]] = {}
        self._readers: dict[str, StreamReader] = {}
        self._kept: defaultdict[str, list[StreamItem[Any]]] = defaultdict(list)
        self._looks = 0
        self.acknowledged: dict[str, int] = {}  # of each execution of a body: how many of its chunks it heard of

    def applied(self, commits: list[Commit], answers: list[Applied]) -> None:
        """Commits were applied."""
        for commit, answer in zip(commits, answers, strict=True):
            if answer.verdict is not Verdict.APPLIED or not (commit.published or commit.appends):
                continue
            if self._applied.get(commit.run_id) == (commit.fence.epoch, commit.number):
                continue  # repeated
            self._applied[commit.run_id] = (commit.fence.epoch, commit.number)
            states = self._states[commit.run_id]
            for one in commit.published:
                if one.name not in states or one.position >= states[one.name].position:
                    states[one.name] = one
            self._check_states(commit.run_id)
            self._looks += 1
            if commit.appends and self._looks % 3 == 0:
                self._read(commit.run_id)

    def _check_states(self, run_id: str) -> None:
        stored = at_once(self._checker.inspector.views.list_published(RunId(run_id)))
        if {one.name: one for one in stored} != self._states[run_id]:
            self._checker.violate("I51", run_id, f"shows {stored}, and published {self._states[run_id]}")

    def _page(self, run_id: str, after: int) -> Page:
        return at_once(self._checker.inspector.views.read_stream(RunId(run_id), STREAM, after=after, limit=_ALL))

    def _read(self, run_id: str) -> list[StreamItem[Any]]:
        """Go on with the reader of a run's stream; what it has then."""
        reader = self._readers.get(run_id)
        if reader is None:
            run = self._checker.rows_now[run_id]
            reader = self._readers[run_id] = StreamReader(JsonCodec(), run, STREAM, 0, ANY)
        kept = self._kept[run_id]
        for chunk in self._page(run_id, reader.after).chunks:
            match reader.read(chunk):
                case StreamReset(source=source, since=since):
                    kept[:] = [one for one in kept if one.source != source or one.offset < since]
                    self._checker.stats["stream resets read"] += 1
                case StreamItem() as item:
                    kept.append(item)
                case None:
                    pass
        return kept

    # --- the end ---

    def check_end(self, world: World, detail: Detail) -> None:
        """A run has ended: what it showed is whole."""
        run_id = detail.run.run_id
        self._check_states(run_id)
        kept = self._read(run_id)
        fresh = StreamReader(JsonCodec(), detail.run, STREAM, 0, ANY)
        whole = [item for chunk in self._page(run_id, 0).chunks if (item := fresh.read(chunk)) is not None]
        world.stats["chunks"] += len(whole)
        if kept != whole:
            self._checker.violate("I52", run_id, f"a reader has {kept[:5]}, and the stream is {whole[:5]}")
        sources: defaultdict[str, list[Any]] = defaultdict(list)
        for item in whole:
            assert isinstance(item, StreamItem)
            sources[item.source].append(item.value)
        self._check_workflow(detail, sources.pop("", []))
        for source, values in sources.items():
            self._check_source(run_id, source, values)
        self._check_done(detail, sources)

    def _check_workflow(self, detail: Detail, values: list[str]) -> None:
        """Every recorded append is there once, in the order of the history."""
        shadow = self._checker.shadow(detail.run.run_id)
        recorded = [one for one in detail.history.entries if one.kind is EntryKind.STREAM]
        if len(values) != len(set(values)) and not shadow.retries:
            self._checker.violate("I52", detail.run.run_id, f"appended twice: {values}")
        if len(values) < len(recorded):
            self._checker.violate("I52", detail.run.run_id, f"{len(recorded)} appends are recorded, not {len(values)}")

    def _check_source(self, run_id: str, source: str, values: list[Any]) -> None:
        """What a step appended is of one execution of its body, from the beginning, in order."""
        tags = {tag for tag, _ in values}
        if len(tags) > 1 or [number for _, number in values] != list(range(len(values))):
            self._checker.violate("I52", run_id, f"{source} appended {values}")
        for tag in tags:
            if len(values) < self.acknowledged.get(tag, 0):
                self._checker.violate("I14", run_id, f"{source}: {self.acknowledged[tag]} chunks were acknowledged")

    def _check_done(self, detail: Detail, sources: dict[str, list[Any]]) -> None:
        shadow = self._checker.shadow(detail.run.run_id)
        for entry in detail.history.entries:
            path = shadow.path(entry.location)
            node = self._checker.node_at(path)
            if not node or entry.kind is not EntryKind.STEP or entry.status is not EntryStatus.DONE:
                continue
            if node.get("kind") == "streaming" and len(sources.get(path, ())) != node["chunks"]:
                text = f"{path} appended {node['chunks']} chunks, and {sources.get(path)} are there"
                self._checker.violate("I52", detail.run.run_id, text)
