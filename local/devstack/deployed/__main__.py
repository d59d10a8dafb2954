"""`make deploy-local`: one trial deployment in a separate state folder. The exit status is 1 if it found problems."""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from local.devstack.config import StackConfig
from local.devstack.deployed.allowed import read_allowed
from local.devstack.deployed.cloud import Cloud, DeploymentError
from local.devstack.deployed.trial import SMOKE_CHECKS, Trial, TrialError, run
from local.devstack.stack import StackError
from masscomm.untrusted import mask_root_logger


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m local.devstack.deployed", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave logs and templates there")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="masscomm-deployed-") as temporary:
        config = StackConfig.on_free_ports(chosen.keep or Path(temporary))
        config.log("pollers").parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=config.log("pollers"), level=logging.INFO, format="%(asctime)s %(message)s")
        mask_root_logger()
        try:
            with Cloud(config) as cloud:
                print(f"up in {cloud.stack.start_s:.1f} s")
                trial = run(cloud, whole=True, report=print)
                print(f"{cloud.stack.memory_mb():.0f} MB, {cloud.stack.peak_mb:.0f} MB at most")
        except (DeploymentError, TrialError, StackError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
    problems = found(trial)
    for problem in problems:
        print(f"not so: {problem}", file=sys.stderr)
    print(f"{len(trial.resources)} resources in {len({stack for stack, _, _ in trial.resources})} stacks")
    return 1 if problems else 0


def found(trial: Trial) -> list[str]:
    """Return the problems that the trial found, one line each."""
    allowed = {(each.stack, each.type) for each in read_allowed()}
    problems = [f"{stack}: {kind} {id} is nowhere" for stack, kind, id in trial.missing if (stack, kind) not in allowed]
    made = allowed - {(stack, kind) for stack, kind, _ in trial.missing}
    problems += [f"{stack}: {kind} is in allowed.tsv, but exists" for stack, kind in sorted(made)]
    problems += [f"left behind: {kind} {id}" for kind, ids in sorted(trial.remaining.items()) for id in sorted(ids)]
    for name, sent in (("a send", trial.now), ("a send for later", trial.later)):
        if sent is None or sent.pushed != sent.must_be_pushed:
            problems.append(f"{name}: not every device was sent it once")
    problems += [f"{request} was let in: {each.status}" for request, each in trial.refused.items() if each.status < 400]
    problems += [f"smoke: {check}: {problem}" for check, problem in trial.smoke_problems.items()]
    if len(trial.smoke) != SMOKE_CHECKS:
        problems.append(f"smoke: {len(trial.smoke)} checks instead of {SMOKE_CHECKS}")
    if trial.read is None or trial.read.status != 200:
        problems.append(f"metrics could not be read: {trial.read}")
    return problems


if __name__ == "__main__":
    raise SystemExit(main())
