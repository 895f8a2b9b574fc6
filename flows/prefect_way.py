"""The Prefect way: each step of a pipeline is a task run.

Only here do the steps meet Prefect: caching by an explicit key for the pure ones, none for the rest, and retries for
what is safe to repeat. Prefect's own transactions, pauses and result re-use play no part in what gets deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

from flows.privacy import apply_settings

apply_settings()

from prefect import Task, task  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.tasks import exponential_backoff  # noqa: E402

from engine.errors import DeletionSyncError, PartitionBusy  # noqa: E402
from flows import telling  # noqa: E402
from flows.withheld import Withheld  # noqa: E402
from server.errors import RateLimited, ServerFault, ServerUnreachable  # noqa: E402
from tasks import progress  # noqa: E402
from tasks.context import open_context, run_folder  # noqa: E402
from tasks.files import verified  # noqa: E402
from tasks.refs import Ref, RunRef  # noqa: E402
from tasks.step import Step  # noqa: E402

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State, TaskRun
    from prefect.context import TaskRunContext

WAY = "prefect"
PASSING = (ServerUnreachable, ServerFault, RateLimited, PartitionBusy)


def call(step: Step, *arguments: Any) -> Any:
    """Run a step as a task run. What the cache has of a pure step is brought into this run's folder."""
    progress.report(step.name, 0, None)
    try:
        result = _called(step, *arguments)
    except Withheld as withheld:
        raise withheld.error from None
    telling.log(telling.step_line(step.name, result))
    return result


def _called(step: Step, *arguments: Any) -> Any:
    if step.rule_version is None:
        return task_of(step)(*arguments)
    run: RunRef = arguments[0]
    made_by: str
    ref: Ref
    made_by, ref = task_of(step)(*arguments)
    if _brought(run, made_by, ref):
        return ref
    # What the cache remembers is no longer on disk: do the work.
    return task_of(step).with_options(refresh_cache=True)(*arguments)[1]


@cache
def task_of(step: Step) -> Any:
    """The task of a step (prefect.Task): its name in the UI is the step's name."""
    retrying: dict[str, Any] = {}
    if step.retries:
        retrying = {
            "retries": step.retries,
            "retry_delay_seconds": exponential_backoff(2),
            "retry_jitter_factor": 0.5,
            "retry_condition_fn": passes_by_itself,
        }
    if step.rule_version is None:
        return task(name=step.name, cache_policy=NO_CACHE, persist_result=False, **retrying)(
            _withholding(step.function)
        )

    def pure(run: RunRef, *inputs: Ref) -> tuple[str, Ref]:
        return run.run_id, step.function(run, *inputs)

    def key(_: TaskRunContext, parameters: dict[str, Any]) -> str:
        return cache_key(step, parameters["run"], parameters["inputs"])

    return task(name=step.name, cache_key_fn=key, persist_result=True, **retrying)(_withholding(pure))


def _withholding(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose errors tell Prefect their name only.

    They are raised, not returned as a state: Prefect logs a returned state with all its data, and would keep it in the
    cache as the result of a pure step.
    """

    @wraps(function)
    def withholding(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except DeletionSyncError as error:
            raise Withheld(error) from None

    return withholding


def cache_key(step: Step, run: RunRef, inputs: tuple[Ref, ...]) -> str:
    """Step name, rule version, the facts that the rule depends on, and the digest of every input file."""
    assert step.rule_facts is not None
    files = [[ref.name, ref.digest] for ref in inputs]
    content = [step.rule_version, run.home, run.partition, dict(step.rule_facts(run)), files]
    text = json.dumps(content, sort_keys=True, default=str)
    return f"{step.name}-{hashlib.sha256(text.encode()).hexdigest()}"


def passes_by_itself(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    """Whether a failed step is worth another try: the network, a busy server, a busy database. Nothing else is."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, Withheld) and isinstance(error.error, PASSING)


def _brought(run: RunRef, made_by: str, ref: Ref) -> bool:
    """Have the file in this run's folder, from the run that made it; False when it is not what it was any more."""
    context = open_context(run)
    target = context.folder / ref.name
    try:
        source = verified(run_folder(context.partition, made_by), ref)
    except DeletionSyncError:
        return False
    if source == target:
        return True
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return True
