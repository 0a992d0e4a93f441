"""Many generated requests against a real server, over every operation that its own description names.

Generating an example costs more than sending it, so each is sent four times: as it is and at something that exists,
with a token and held against the description; then without a token, and with one that is nobody's. Only the first
two are counted as requests.

`python -m tests.http.campaign --requests 2000` prints the figures, and fails if one that must be 0 is not, or if an
operation got fewer requests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from schemathesis.checks import CHECKS
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.generation import GenerationMode

from stepwell.http import Role
from tests.http.desk import TEXTS
from tests.http.server import serving
from tests.http.test_hooks import signed

CHECKED = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
]
_CHECKED_EACH = 2
# What the client itself cannot spell, and does not send.
_UNSPEAKABLE = (requests.exceptions.InvalidHeader, UnicodeError, requests.exceptions.InvalidURL)
PUBLIC = {"/healthz", "/readyz"}
ORDER = {"customer": "ann", "amount": 42}
WORKFLOWS = ("checkout", "approval", "payment", "declined", "confused")


@dataclass
class Figures:
    """What came of a campaign."""

    requests: Counter[str] = field(default_factory=Counter)  # with a token, each answer held against the description
    strangers: Counter[str] = field(default_factory=Counter)  # requests without a token that anybody knows
    statuses: Counter[int] = field(default_factory=Counter)
    server_errors: list[str] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    unauthenticated: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.server_errors or self.mismatches or self.unauthenticated)

    def lines(self) -> list[str]:
        return [
            *(
                f"{name:<40} {count:>7} checked requests, {self.strangers[name]:>7} of strangers"
                for name, count in sorted(self.requests.items())
            ),
            f"statuses: {dict(sorted(self.statuses.items()))}",
            f"{sum(self.requests.values())} checked requests over {len(self.requests)} operations, at least "
            f"{min(self.requests.values(), default=0)} each, and {sum(self.strangers.values())} of strangers: "
            f"{len(self.server_errors)} status 500, {len(self.mismatches)} schema mismatches, "
            f"{len(self.unauthenticated)} unauthenticated successes",
            *(self.server_errors + self.mismatches + self.unauthenticated)[:20],
        ]


class Campaign:
    """One server, one description, many requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.figures = Figures()
        self.examples = 0
        self.session = requests.Session()
        self.token = {"Authorization": f"Bearer {TEXTS[Role.ADMIN]}"}
        document = self.session.get(f"{url}/api/openapi.json", headers=self.token, timeout=20).json()
        self.schema = schemathesis.openapi.from_dict(_without_tokens(document))
        self.runs = [self._start(name, f"key-{name}") for name in WORKFLOWS]
        self.bulk = self._act_on_many()

    def _act_on_many(self) -> str:
        body = {"verb": "retry", "where": "status:failed"}
        answer = self.session.post(f"{self.url}/api/bulks", json=body, headers=self.token, timeout=20)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["name"])

    def _start(self, workflow: str, key: str) -> str:
        given_input = None if workflow in ("approval", "payment") else ORDER
        body: Any = {"workflow": workflow, "input": given_input, "key": key}
        answer = self.session.post(f"{self.url}/api/runs", json=body, headers=self.token, timeout=20)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["run"]["run_id"])

    def run(self, count: int, seed: int, part: int = 0, parts: int = 1, only: str = "") -> Figures:
        every = [found.ok() for found in self.schema.get_all_operations()]
        for operation in [each for each in every if only in each.path][part::parts]:
            can_be_wrong = any(operation.iter_parameters()) or bool(operation.body)
            share = -(-count // 2) if can_be_wrong else count
            self._storm(operation, share, seed, GenerationMode.POSITIVE)
            if can_be_wrong:
                self._storm(operation, share, seed, GenerationMode.NEGATIVE)
        return self.figures

    def _storm(self, operation: Any, share: int, seed: int, mode: GenerationMode) -> None:
        """Requests of one kind for one operation. The tree of a path with no parts is exhausted after one example."""
        name = f"{operation.method.upper()} {operation.path}"
        began = self.figures.requests[name]
        for turn in range(share):
            left = share - (self.figures.requests[name] - began)
            if left <= 0:
                return
            if turn > 50:
                # What can be generated is exhausted: what there is, is sent again.
                for _ in range(-(-left // _CHECKED_EACH)):
                    self._send(operation.Case(), name)
                return

            @seeded(seed + turn)
            @settings(
                max_examples=-(-left // _CHECKED_EACH),
                database=None,
                deadline=None,
                derandomize=False,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
                verbosity=Verbosity.quiet,
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def attack(case: Any) -> None:
                self._send(case, name)

            attack()

    def _send(self, case: Any, name: str) -> None:
        """One example, in each way."""
        self.examples += 1
        self._shorten(case)
        self._send_known(case, name)
        self._aim(case, self.examples)
        self._send_known(case, name)
        self._send_unauthenticated(case, name)

    def _send_known(self, case: Any, name: str) -> None:
        headers = {**self.token, "Host": "localhost"}
        try:
            response = case.call(base_url=self.url, session=self.session, headers=headers, timeout=60)
        except _UNSPEAKABLE:
            return
        assert response.request.headers["Authorization"] == self.token["Authorization"]
        self.figures.requests[name] += 1
        self.figures.statuses[response.status_code] += 1
        if response.status_code == 500:
            self.figures.server_errors.append(f"{name}: {response.text[:300]}")
        try:
            case.validate_response(response, checks=CHECKS.get_by_names(CHECKED), headers=headers)
        except (FailureGroup, Failure) as error:
            inner = error.exceptions if isinstance(error, FailureGroup) else [error]
            self.figures.mismatches.append(f"{name}: {'; '.join(f'{one.title}: {one.message}'[:300] for one in inner)}")

    def _send_unauthenticated(self, case: Any, name: str) -> None:
        """The same request without a token, and with one that is nobody's."""
        for header in ({}, {"Authorization": "Bearer swt_000000000000_nobody"}):
            case.headers.pop("Authorization", None)
            try:
                answer = case.call(base_url=self.url, session=self.session, headers=header, timeout=60)
            except _UNSPEAKABLE:
                return
            self.figures.strangers[name] += 1
            is_signed = case.path.startswith("/api/hooks") and "webhook-signature" in case.headers
            if answer.status_code < 300 and case.path not in PUBLIC and not is_signed:
                self.figures.unauthenticated.append(f"{name}: {answer.status_code}")

    def _shorten(self, case: Any) -> None:
        """Let no request wait for long."""
        query = dict(case.query or {})
        if isinstance(query.get("wait"), int | float):
            query["wait"] = min(query["wait"], 0.01) if query["wait"] >= 0 else query["wait"]
        if case.path.endswith("/changes"):
            query.setdefault("seconds", 0)
            if isinstance(query["seconds"], int | float) and query["seconds"] > 0:
                query["seconds"] = 0
        case.query = query

    def _aim(self, case: Any, number: int) -> None:
        """Point a request at something that exists."""
        parts = dict(case.path_parameters or {})
        if "run" in parts:
            parts["run"] = self.runs[number % len(self.runs)]
        if "workflow" in parts:
            parts["workflow"] = WORKFLOWS[number % len(WORKFLOWS)]
        if "bulk" in parts:
            parts["bulk"] = self.bulk
        if case.path == "/api/bulks" and isinstance(case.body, dict) and number % 2 == 0:
            case.body.update(where="status:failed", runs=[], options={})
        if "hook" in parts:
            parts["hook"] = "shop"
            raw = json.dumps(case.body if isinstance(case.body, dict | list | str | int) else None).encode()
            case.headers.update(signed(raw, message_id=hashlib.sha256(raw).hexdigest()))
            case.body = json.loads(raw)
        case.path_parameters = parts
        if isinstance(case.body, dict) and "workflow" in case.body and number % 2 == 0:
            case.body["workflow"] = WORKFLOWS[number // 2 % len(WORKFLOWS)]


def _without_tokens(document: dict[str, Any]) -> dict[str, Any]:
    """A description that says nothing of tokens: who has one is ours to say, and no example leaves it out."""
    document["components"].pop("securitySchemes")
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("security")
    return document


def attack(url: str, count: int, seed: int, part: int = 0, parts: int = 1, only: str = "") -> Figures:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Campaign(url).run(count, seed, part, parts, only)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000, help="checked, for each operation, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--db", default="", help="the database; a new SQLite file by default")
    parser.add_argument("--part", default="0/1", help="such as 2/8: every eighth operation, from the third on")
    parser.add_argument("--only", default="", help="operations whose path has this in it")
    chosen = parser.parse_args()
    part, parts = map(int, chosen.part.split("/"))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), chosen.db) as server:
        figures = attack(server.url, chosen.requests, chosen.seed, part, parts, chosen.only)
    print("\n".join(figures.lines()))
    return 0 if figures.is_clean and min(figures.requests.values()) >= chosen.requests else 1


if __name__ == "__main__":
    sys.exit(main())
