"""Runs the tasks of a sweep on a Ray cluster: what ``hawser sim sweep --on ray`` starts.

Standard input has one JSON object: what to run (``program``, ``sweep``, ``options``), the numbers of the tasks, and
the files that they read, by relative path, in base64. Standard output has a line for each task: ``{"number": …,
"answer": …}``, or ``{"number": …, "error": …}``. Nodes need Ray and the same ``hawser``, and no common file system.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import ray  # type: ignore

TRIES = 3
# The number of batches that the cluster holds at a time, for each of its processors.
AHEAD = 4
# A batch is small enough to give each processor this many, and never larger than LARGEST.
SHARES = 16
LARGEST = 64


class Killed(Exception):
    """The worker was ended by a signal."""


@ray.remote(num_cpus=1, max_retries=TRIES - 1, retry_exceptions=[Killed])  # type: ignore
def run(files: dict[str, str], program: str, sweep: str, options: list[str], numbers: list[int]) -> list[Any]:
    """Runs a batch of tasks, and gives what the worker answers to each."""
    found = program if os.access(program, os.X_OK) else shutil.which("hawser")
    node = os.uname().nodename
    if found is None:
        return [{"error": f"{node} has no {program}, and no hawser in its PATH"}] * len(numbers)
    with tempfile.TemporaryDirectory(prefix="hawser-") as folder:
        for name, content in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(base64.b64decode(content))
        command = [found, "sim", "sweep", os.path.join(folder, sweep), "--worker", *options]
        asked = "".join(f"{number}\n" for number in numbers)
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        raise Killed(f"the worker on {node} was ended by signal {-done.returncode}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) < len(numbers):
        missing = {"error": f"{node}: {done.stderr.strip() or 'the worker ended'}"}
        answers += [missing] * (len(numbers) - len(answers))
    return answers


def main() -> None:
    """Runs all tasks."""
    # Other output must not come between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asked: dict[str, Any] = json.load(sys.stdin)
    ray.init(address=asked["address"], log_to_driver=False, logging_level="error")
    files = ray.put(asked["files"])
    processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
    numbers: list[int] = asked["numbers"]
    size = max(1, min(LARGEST, len(numbers) // (processors * SHARES)))
    # Single tasks of a batch that could not be run come first.
    left = [numbers[start : start + size] for start in range(0, len(numbers), size)][::-1]
    pending: dict[Any, list[int]] = {}
    while left or pending:
        while left and len(pending) < processors * AHEAD:
            batch = left.pop()
            pending[run.remote(files, asked["program"], asked["sweep"], asked["options"], batch)] = batch
        (done, *_), _ = ray.wait(list(pending), num_returns=1)
        batch = pending.pop(done)
        try:
            lines = [{"number": number, "answer": answer} for number, answer in zip(batch, ray.get(done))]
        except ray.exceptions.RayError as error:
            if len(batch) > 1:
                left += [[number] for number in reversed(batch)]
                continue
            lines = [{"number": batch[0], "error": str(error).strip().splitlines()[-1]}]
        for line in lines:
            out.write(json.dumps(line) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
