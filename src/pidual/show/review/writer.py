"""Write decisions that come while the disk is busy together: twenty reviewers wait for one of its turns."""

import asyncio
from collections.abc import Callable

from ...run.decisions import Sent, Store


class Writer:
    """Writes decisions in another thread, so that the event loop goes on.

    Parameters
    ----------
    store : Store
        Where they are kept.
    after : callable
        Called when some are written, before those who wait are answered.
    """

    def __init__(self, store: Store, after: Callable[[], None]):
        self.store, self.after = store, after
        self._waiting: list[tuple[Sent, asyncio.Future[tuple[int, bool]]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, decision: Sent) -> tuple[int, bool]:
        """Return what `Store.add` says, when the decision is on the disk."""
        done: asyncio.Future[tuple[int, bool]] = asyncio.get_running_loop().create_future()
        self._waiting.append((decision, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write())
        return await done

    async def _write(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            try:
                written = await asyncio.to_thread(self.store.add_all, [decision for decision, _ in together])
                self.after()
            except Exception as error:  # those who wait get it
                for _, done in together:
                    if not done.done():
                        done.set_exception(error)
                continue
            for (_, done), answer in zip(together, written, strict=True):
                if not done.done():  # else the client has gone
                    done.set_result(answer)
