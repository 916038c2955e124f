"""Process 1 of a cluster, which starts, restarts, reaps and stops the components.

`launch.start` runs it in new namespaces, and it reads its plan from standard input. When it ends, the kernel ends every
process, mount, link and firewall rule of the cluster. Standard library only.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from trainstack.local_cluster import probes, sandbox
from trainstack.local_cluster.layout import Layout
from trainstack.local_cluster.lifeline import Owner
from trainstack.local_cluster.plan import Component, Plan
from trainstack.local_cluster.state import ComponentStatus, write_status

TICK_SECONDS = 0.1
SLOW_TICK_SECONDS = 1.0
"""Interval once everything is ready: it bounds how late an exit of the starter is noticed."""
FIRST_BACKOFF_SECONDS = 0.2
LAST_BACKOFF_SECONDS = 5.0
HEALTHY_SECONDS = 30.0
"""Running time after which a component restarts with the first backoff again."""
STOP_SECONDS = 5.0
"""Timeout after which a stopping component is killed. All components together take at most twice this time."""
WAKE_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


@dataclass
class Running:
    """A component with the state of its process."""

    component: Component
    pid: int = 0
    """0 unless the component runs."""
    ready: bool = False
    done: bool = False
    """Whether a component that runs once has succeeded."""
    restarts: int = 0
    exit: str = ""
    """The reason of the last exit, such as `exit code 1`; empty before the first exit."""
    since: float = 0.0
    """Monotonic time of the last start."""
    backoff: float = FIRST_BACKOFF_SECONDS
    """Seconds until the next restart."""
    not_before: float = field(default=0.0)
    """Monotonic time of the earliest restart."""

    def status(self) -> ComponentStatus:
        return ComponentStatus(
            self.component.name, self.pid, self.ready or self.done, self.restarts, self.exit, self.component.once
        )


class Supervisor:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layout = Layout(Path(plan.state))
        self.running = {component.name: Running(component) for component in plan.components}
        self.environment = {**os.environ, "TMPDIR": str(self.layout.tmp)}

    def start(self, entry: Running) -> None:
        """Start a component, whose output goes to its log file."""
        component = entry.component
        log = str(self.layout.log / f"{component.name}.log")
        try:
            entry.pid = os.posix_spawnp(
                component.argv[0],
                component.argv,
                {**self.environment, **component.environment},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                setsigmask=[],
            )
            entry.since = time.monotonic()
        except OSError as error:
            self.ended(entry, f"cannot be started: {error}")

    def ended(self, entry: Running, how: str) -> None:
        """Record an exit, and schedule the restart."""
        now = time.monotonic()
        if entry.component.once and how == "exit code 0":
            entry.pid, entry.done, entry.exit = 0, True, how
            return
        if entry.since and now - entry.since > HEALTHY_SECONDS:
            entry.backoff = FIRST_BACKOFF_SECONDS
        entry.pid, entry.ready, entry.exit = 0, False, how
        entry.restarts += 1
        entry.not_before = now + entry.backoff
        entry.backoff = min(entry.backoff * 2, LAST_BACKOFF_SECONDS)
        print(f"{entry.component.name}: {how}; restarting", file=sys.stderr, flush=True)

    def reap(self) -> bool:
        """Collect ended children, including orphans; return whether a component was among them."""
        changed = False
        by_pid = {entry.pid: entry for entry in self.running.values() if entry.pid}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return changed
            if pid == 0:
                return changed
            if pid in by_pid:
                code = os.waitstatus_to_exitcode(status)
                how = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
                self.ended(by_pid[pid], how)
                changed = True

    def advance(self) -> bool:
        """Start components whose dependencies are ready, and probe running ones; return whether anything changed."""
        changed = False
        for entry in self.running.values():
            waits = any(not (self.running[name].ready or self.running[name].done) for name in entry.component.after)
            if not entry.pid and not entry.done:
                # A restart does not wait for dependencies: a restart of etcd must not delay that of the kubelet.
                if time.monotonic() >= entry.not_before and not (waits and not entry.restarts):
                    self.start(entry)
                    changed = True
            elif entry.pid and not entry.ready and not entry.component.once:
                entry.ready = probes.ready(entry.component.probe, self.plan.certs)
                changed = changed or entry.ready
        return changed

    def report(self) -> None:
        write_status(self.layout.status, [entry.status() for entry in self.running.values()])

    def settled(self) -> bool:
        """Return whether there is nothing to start or probe."""
        return all(entry.ready or entry.done for entry in self.running.values())

    def run(self, owner: Owner) -> None:
        """Keep the components running until a signal, or until the process that started the cluster has ended."""
        self.report()
        while True:
            changed = self.reap()
            changed = self.advance() or changed
            if changed:
                self.report()
            received = signal.sigtimedwait(WAKE_SIGNALS, SLOW_TICK_SECONDS if self.settled() else TICK_SECONDS)
            if received is not None and received.si_signo in (signal.SIGTERM, signal.SIGINT):
                return
            if owner.has_ended():
                print("the process that started this cluster has ended; stopping", file=sys.stderr, flush=True)
                return

    def stop(self) -> None:
        """Stop components in reverse order: clients first, so that the API server has no open requests."""
        deadline = time.monotonic() + 2 * STOP_SECONDS
        stages: tuple[tuple[str, ...], ...] = (
            tuple(name for name in self.running if name not in ("etcd", "apiserver", "containerd")),
            ("apiserver", "containerd"),
            ("etcd",),
        )
        for stage in stages:
            self._stop_stage([self.running[name] for name in stage if name in self.running], deadline)

    def _stop_stage(self, entries: list[Running], deadline: float) -> None:
        pids = {entry.pid for entry in entries if entry.pid}
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        limit = min(time.monotonic() + STOP_SECONDS, deadline)
        while pids:
            if time.monotonic() > limit:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                limit = float("inf")
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                signal.sigtimedwait((signal.SIGCHLD,), TICK_SECONDS)
            pids.discard(pid)


def main() -> None:
    text = sys.stdin.read()
    if not text:
        return  # the command that started this process has ended without a plan
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKE_SIGNALS)
    # Process 1 ignores signals without a handler, and sigtimedwait does not return ignored ones.
    for number in WAKE_SIGNALS:
        signal.signal(number, lambda *_: None)
    plan = Plan.from_json(text)
    sandbox.set_up(plan)
    supervisor = Supervisor(plan)
    supervisor.run(Owner())
    supervisor.stop()


if __name__ == "__main__":
    main()
