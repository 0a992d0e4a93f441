"""Published values and streams."""

from __future__ import annotations

import asyncio

from stepwell.conformance.case import StoreCase
from stepwell.conformance.scene import Scene, Turn, place, step
from stepwell.conformance.snapshot import snapshot
from stepwell.ids import RunId
from stepwell.model.commits import Verdict
from stepwell.model.live import Append, Chunk, ChunkKind, Page, Published
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind

DATA, RESET, CLOSE = ChunkKind.DATA, ChunkKind.RESET, ChunkKind.CLOSE


def line(value: str, source: str = "", part: int = 0, *, stream: str = "s", begins: bool = False) -> Append:
    """A line of data."""
    return Append(stream, DATA, value.encode(), source, part, begins)


class LiveSuite(StoreCase):
    """`published` and `appends` in `apply`, and their reads."""

    async def _read(self, scene: Scene, run_id: str = "r1", *, after: int = 0, limit: int = 100) -> Page:
        return await scene.store.views.read_stream(RunId(run_id), "s", after=after, limit=limit)

    async def _values(self, scene: Scene, after: int = 0) -> list[tuple[int, str, str]]:
        page = await self._read(scene, after=after)
        return [(chunk.offset, chunk.kind.value, chunk.value.decode()) for chunk in page.chunks]

    async def _published(self, scene: Scene, run_id: str = "r1") -> list[Published]:
        return await scene.store.views.list_published(RunId(run_id))

    # --- state ---

    async def test_published_values_are_read_by_name_also_after_the_end(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        first, second = Published("", 0, bytes(range(256))), Published("progress ä", 3, b"")

        await turn.commit(published=(second, first))
        assert await self._published(scene) == [first, second]
        await turn.end()

        assert await self._published(scene) == [first, second]
        assert await self._published(scene, "unknown") == []

    async def test_a_value_replaces_one_of_the_same_or_an_earlier_position_only(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(published=(Published("a", 5, b"five"), Published("b", 5, b"five")))

        await turn.commit(published=(Published("a", 4, b"older"), Published("b", 6, b"newer")))
        assert await self._published(scene) == [Published("a", 5, b"five"), Published("b", 6, b"newer")]
        await turn.commit(published=(Published("a", 5, b"again"),))

        assert (await self._published(scene))[0] == Published("a", 5, b"again")

    async def test_a_fenced_commit_shows_nothing(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        before = await snapshot(scene.store)
        stale = turn.next(published=(Published("", 1, b"x"),), appends=(line("x"),))

        fence = stale.fence._replace(epoch=stale.fence.epoch + 1)
        [applied] = await scene.store.runs.apply([stale._replace(fence=fence)])

        assert applied.verdict is Verdict.FENCED
        assert await snapshot(scene.store) == before

    # --- streams ---

    async def test_chunks_get_the_next_offset_of_their_stream(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(appends=(line("a"), line("x", stream="t"), line("b")))
        await turn.commit(names=("n",), entries=(step(1, place(0)),), appends=(line("c"), Append("s", CLOSE, b"")))

        assert await self._values(scene) == [(1, "d", "a"), (2, "d", "b"), (3, "d", "c"), (4, "c", "")]
        assert await scene.store.views.list_streams(RunId("r1")) == ["s", "t"]

    async def test_a_page_begins_after_its_offset_and_is_bounded(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(appends=tuple(line(str(number)) for number in range(1, 8)))

        assert [chunk.offset for chunk in (await self._read(scene, after=2, limit=3)).chunks] == [3, 4, 5]
        assert (await self._read(scene, after=7)).chunks == ()
        assert (await self._read(scene, after=2**60)).chunks == ()

    async def test_a_stream_ends_with_its_run(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        assert await self._read(scene) == Page((), False)
        await turn.commit(appends=(line("a"),), move=None)
        assert not (await self._read(scene)).is_over
        await turn.end(RunStatus.FAILED, failure=b"no")

        assert await self._read(scene) == Page((Chunk(1, DATA, "", b"a"),), True)
        assert await self._read(scene, "unknown") == Page((), True)

    async def test_the_first_line_of_a_part_withdraws_the_parts_before_it(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(appends=(line("w"), line("a1", "step", 1, begins=True), line("o1", "other", 1, begins=True)))
        await turn.commit(appends=(line("a2", "step", 1),))

        await turn.commit(appends=(line("b1", "step", 2, begins=True), line("b2", "step", 2)))

        assert await self._values(scene) == [
            (1, "d", "w"),
            (3, "d", "o1"),
            (5, "r", "2"),
            (6, "d", "b1"),
            (7, "d", "b2"),
        ]
        [reset, *_] = (await self._read(scene, after=4)).chunks
        assert reset == Chunk(5, RESET, "step", b"2")

    async def test_offsets_are_never_used_again(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        for part in (1, 2, 3):
            await turn.commit(appends=(line(f"part {part}", "step", part, begins=True),))

        assert await self._values(scene) == [(2, "r", "1"), (4, "r", "3"), (5, "d", "part 3")]

    async def test_a_part_that_begins_in_another_stream_withdraws_nothing_here(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        await turn.commit(appends=(line("a", "step", 1, begins=True),))

        await turn.commit(appends=(line("b", "step", 2, stream="t", begins=True),))

        assert await self._values(scene) == [(1, "d", "a")]

    async def test_a_commit_that_is_repeated_appends_once(self, scene: Scene) -> None:
        turn = await scene.begin("r1")
        commit = turn.next(appends=(line("a", "step", 1, begins=True),), published=(Published("", 1, b"v"),))

        await turn.send(commit)
        assert (await turn.send(commit)).verdict is Verdict.APPLIED

        assert await self._values(scene) == [(1, "d", "a")]

    async def test_appends_alone_do_not_count_as_progress(self, scene: Scene) -> None:
        await scene.create("r1")
        turn: Turn = await scene.claim_only("r1")
        await turn.commit(appends=(line("a"),))
        await scene.lose_worker()
        await scene.rescue()
        await scene.register()

        turn = await scene.claim_only("r1")
        await turn.commit(appends=(line("a"),), published=(Published("", 1, b"v"),))

        assert (await scene.run("r1")).stalls == 1

    async def test_an_append_sends_a_hint(self, scene: Scene, store: Store) -> None:
        heard: list[Hint] = []
        stop = store.wakeups.listen(heard.append)
        turn = await scene.begin("r1")

        await turn.commit(appends=(line("a"),))
        await asyncio.sleep(0)
        stop()

        assert [hint.runs for hint in heard if hint.kind is HintKind.STREAM] == [("r1",)]
