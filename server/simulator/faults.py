"""Faults that a test or the demo asks the simulated server for: wrong answers, cut connections, delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from server.simulator.spoiling import AS_IT_IS, StreamFault

PROXY_PAGE = (
    "<html><head><title>Bad gateway</title></head><body><h1>The proxy could not reach the server</h1></body></html>"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault; ``remaining`` None means: for ever. See Faults.add."""

    method: str
    path_prefix: str
    status: int | None
    body: Any
    headers: Mapping[str, str]
    delay: float | None
    drop_connection: bool
    html: bool
    before_effect: bool
    skip: int
    remaining: int | None

    @property
    def replaces_answer(self) -> bool:
        return self.status is not None or self.html or self.drop_connection


@dataclass(slots=True)
class Faults:
    """The faults still to come, first added first used. ``arrived`` is told of each request before anything else is
    done with it, so that whoever sent it can be killed at that moment. ``streams`` spoil the change stream's body."""

    planned: list[Fault] = field(default_factory=list)
    streams: list[StreamFault] = field(default_factory=list)
    arrived: Callable[[str, str], None] | None = None

    def add(
        self,
        method: str,
        path_prefix: str,
        *,
        status: int | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        delay: float | None = None,
        drop_connection: bool = False,
        after: int = 0,
        times: int | None = 1,
        html: bool = False,
        before_effect: bool = True,
    ) -> None:
        """Let matching requests fail: the first ``after`` pass, then ``times`` of them (None: all) meet the fault.

        ``method`` "*" matches any. With ``status`` the answer is that status with ``body`` as JSON (text where it is a
        string) and ``headers``; ``html`` answers a proxy's page (502 unless ``status`` says otherwise);
        ``drop_connection`` closes the socket without an answer; ``delay`` waits that many seconds first, and alone
        leaves the answer as it is. ``before_effect`` True: the request changes nothing; False: it took effect, and only
        its answer is lost or replaced.
        """
        self.planned.append(
            Fault(
                method=method.upper(),
                path_prefix=path_prefix,
                status=status,
                body=body,
                headers=dict(headers or {}),
                delay=delay,
                drop_connection=drop_connection,
                html=html,
                before_effect=before_effect,
                skip=after,
                remaining=times,
            )
        )

    def add_stream(self, fault: StreamFault, *, times: int = 1) -> None:
        """Let the next ``times`` answers of the change stream that began well be spoiled so."""
        self.streams += [fault] * times

    def clear(self) -> None:
        self.planned.clear()
        self.streams.clear()

    def take_stream(self) -> StreamFault:
        """How the next answer of the change stream is to be sent."""
        return self.streams.pop(0) if self.streams else AS_IT_IS

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that this request meets, used up by one; or None."""
        if self.arrived is not None:
            self.arrived(method, path)
        for place, fault in enumerate(self.planned):
            if fault.method not in ("*", method) or not path.startswith(fault.path_prefix):
                continue
            if fault.skip:
                self.planned[place] = replace(fault, skip=fault.skip - 1)
                continue
            if fault.remaining is not None:
                if fault.remaining > 1:
                    self.planned[place] = replace(fault, remaining=fault.remaining - 1)
                else:
                    del self.planned[place]
            return fault
        return None
