"""Process 1 of a cluster: starts components in order, restarts and reaps them, and stops them in order.

Started by `cluster.up` in new namespaces; reads its plan from standard input. Whenever it ends, the kernel ends every
process, mount, link and firewall rule of the cluster with it. Standard library only.
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
"""Once everything is ready it only waits for signals; this bounds how late a backoff ends."""
FIRST_BACKOFF_SECONDS = 0.2
LAST_BACKOFF_SECONDS = 5.0
HEALTHY_SECONDS = 30.0
"""A component that ran this long restarts with the first backoff."""
STOP_SECONDS = 5.0
"""How long a component may take to stop before it is killed; all of them together take at most twice this."""
WAKE_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


@dataclass
class Running:
    component: Component
    pid: int = 0
    """0 unless it runs."""
    ready: bool = False
    done: bool = False
    """Whether a step has succeeded."""
    restarts: int = 0
    exit: str = ""
    since: float = 0.0
    """Monotonic time of its start."""
    backoff: float = FIRST_BACKOFF_SECONDS
    not_before: float = field(default=0.0)
    """Monotonic time before which it is not restarted."""

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
        """Start a component with its log file as output."""
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
        """Record an exit and schedule the restart."""
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
        """Collect dead children, including orphans; return whether a component was among them."""
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
        """Start components that may start and probe those not ready; return whether anything changed."""
        changed = False
        for entry in self.running.values():
            waits = any(not (self.running[name].ready or self.running[name].done) for name in entry.component.after)
            if not entry.pid and not entry.done:
                # A restart does not wait for others: etcd's must not delay the kubelet's.
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
        """Whether there is nothing to start or probe."""
        return all(entry.ready or entry.done for entry in self.running.values())

    def run(self, owner: Owner) -> None:
        """Keep the components running until a signal, or until the owner has ended."""
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
        return  # the command that started this process ended before it wrote the plan
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
