"""The diagnosis of a store: its own health, and what needs a person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from stepwell.clock import to_datetime
from stepwell.engine.attention import examine_attention
from stepwell.engine.backend import Backend
from stepwell.engine.sharing import Shared
from stepwell.stores.base.diagnosis import Finding, Verdict, worst

_AGE_SECONDS: Final = 5.0  # of an examination that is still given to other callers


@dataclass(frozen=True, slots=True)
class Examination:
    """What an examination found, and when. `is_quick` if the checks that read the whole file were left out."""

    of_store: tuple[Finding, ...]  # none if the store exists only in this process
    needs: tuple[Finding, ...]  # what waits for a person
    checked_at: datetime
    is_quick: bool

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return self.of_store + self.needs

    @property
    def verdict(self) -> Verdict:
        """The worst verdict."""
        return worst(self.findings)


class Diagnosis:
    """`engine.diagnosis`: examines the store, and lists what needs a person."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._quick = Shared(backend.environment, self._examine_quickly, _AGE_SECONDS)
        self._needs = Shared(backend.environment, self._examine_needs, _AGE_SECONDS)

    async def examine(self, *, is_quick: bool = False) -> Examination:
        """Examine the store and its runs. Changes nothing.

        A quick examination leaves out the checks that read the whole file or the whole audit. It may be some seconds
        old: callers at about the same time share one.
        """
        return await self._quick.get() if is_quick else await self._examine(is_quick=False)

    async def examine_needs(self) -> Examination:
        """What waits for a person, without the checks of the store: a page may ask again and again. It may be some
        seconds old, as a quick examination.
        """
        return await self._needs.get()

    async def list_needs(self) -> list[Finding]:
        """A finding for each kind of thing that waits for a person: runs and events that no worker will move."""
        return await examine_attention(self._backend)

    async def _examine_needs(self) -> Examination:
        needs = await self.list_needs()
        return Examination((), tuple(needs), to_datetime(self._backend.store.now()), True)

    async def _examine_quickly(self) -> Examination:
        return await self._examine(is_quick=True)

    async def _examine(self, *, is_quick: bool) -> Examination:
        backend = self._backend
        diagnosis = backend.store.diagnosis()
        found: list[Finding] = []
        if diagnosis is not None:
            found = await backend.environment.executor.call_blocking(lambda: list(diagnosis.examine(is_quick=is_quick)))
        needs = await self.list_needs()
        return Examination(tuple(found), tuple(needs), to_datetime(backend.store.now()), is_quick)
