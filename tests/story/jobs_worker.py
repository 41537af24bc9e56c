"""A process that runs the jobs of the test's home until it is killed: `python -m tests.story.jobs_worker START SPEED`.

Its clock runs SPEED times as fast as the real one and showed the hour of the tests at START, seconds since 1970.
"""

import asyncio
import sys
import time
from datetime import datetime, timedelta

from melete import load
from melete.app.runs import Runs
from melete.app.scheduler import Ticker, make_jobs
from melete.app.warm import Warm
from melete.app.wire import open_melete
from tests.story.jobs_at_work import START


class FastClock:
    """The time, faster."""

    def __init__(self, since: float, speed: float) -> None:
        self._since = since
        self._speed = speed

    def now(self) -> datetime:
        """The time of the tests."""
        return START + timedelta(seconds=(time.time() - self._since) * self._speed)


async def main(since: float, speed: float) -> None:
    """Look after the jobs."""
    async with open_melete(load({"cron.timezone": "UTC"})) as app:
        app.clock = FastClock(since, speed)
        runs = Runs(app, most=10, warm=Warm(app, most=4, seconds=60.0))
        await Ticker(make_jobs(app, runs), tick=60.0, poll=0.01).run()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2])))
