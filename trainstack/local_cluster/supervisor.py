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

from trainstack.local_cluster import namespaces, probes
from trainstack.local_cluster.component_status import ComponentStatus, write_status
from trainstack.local_cluster.lifeline import StarterProcess
from trainstack.local_cluster.state_folder import Layout
from trainstack.local_cluster.supervisor_plan import ClusterComponent, SupervisorPlan

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
class ComponentProcess:
    """A component with the state of its process."""

    component: ClusterComponent
    pid: int = 0
    """0 unless the component runs."""
    ready: bool = False
    has_succeeded: bool = False
    """Whether a component that runs once has succeeded."""
    restarts: int = 0
    exit_reason: str = ""
    """The reason of the last exit, such as `exit code 1`; empty before the first exit."""
    started_at: float = 0.0
    """Monotonic time of the last start."""
    backoff: float = FIRST_BACKOFF_SECONDS
    """Seconds until the next restart."""
    not_before: float = field(default=0.0)
    """Monotonic time of the earliest restart."""

    def status(self) -> ComponentStatus:
        return ComponentStatus(
            self.component.name,
            self.pid,
            self.ready or self.has_succeeded,
            self.restarts,
            self.exit_reason,
            self.component.once,
        )


class Supervisor:
    def __init__(self, plan: SupervisorPlan) -> None:
        self.plan = plan
        self.layout = Layout(Path(plan.state))
        self.processes = {component.name: ComponentProcess(component) for component in plan.components}
        self.environment = {**os.environ, "TMPDIR": str(self.layout.tmp)}

    def start(self, process: ComponentProcess) -> None:
        """Start a component, whose output goes to its log file."""
        component = process.component
        log = str(self.layout.log / f"{component.name}.log")
        try:
            process.pid = os.posix_spawnp(
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
            process.started_at = time.monotonic()
        except OSError as error:
            self.record_exit(process, f"cannot be started: {error}")

    def record_exit(self, process: ComponentProcess, reason: str) -> None:
        """Record an exit, and schedule the restart."""
        now = time.monotonic()
        if process.component.once and reason == "exit code 0":
            process.pid, process.has_succeeded, process.exit_reason = 0, True, reason
            return
        if process.started_at and now - process.started_at > HEALTHY_SECONDS:
            process.backoff = FIRST_BACKOFF_SECONDS
        process.pid, process.ready, process.exit_reason = 0, False, reason
        process.restarts += 1
        process.not_before = now + process.backoff
        process.backoff = min(process.backoff * 2, LAST_BACKOFF_SECONDS)
        print(f"{process.component.name}: {reason}; restarting", file=sys.stderr, flush=True)

    def reap(self) -> bool:
        """Collect ended children, including orphans; return whether a component was among them."""
        changed = False
        processes_by_pid = {process.pid: process for process in self.processes.values() if process.pid}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return changed
            if pid == 0:
                return changed
            if pid in processes_by_pid:
                code = os.waitstatus_to_exitcode(status)
                reason = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
                self.record_exit(processes_by_pid[pid], reason)
                changed = True

    def advance(self) -> bool:
        """Start components whose dependencies are ready, and probe running ones; return whether anything changed."""
        changed = False
        for process in self.processes.values():
            is_blocked = any(
                not (self.processes[name].ready or self.processes[name].has_succeeded)
                for name in process.component.after
            )
            if not process.pid and not process.has_succeeded:
                # A restart does not wait for dependencies: a restart of etcd must not delay that of the kubelet.
                if time.monotonic() >= process.not_before and not (is_blocked and not process.restarts):
                    self.start(process)
                    changed = True
            elif process.pid and not process.ready and not process.component.once:
                process.ready = probes.is_ready(process.component.probe, self.plan.certs)
                changed = changed or process.ready
        return changed

    def save_status(self) -> None:
        write_status(self.layout.status, [process.status() for process in self.processes.values()])

    def is_settled(self) -> bool:
        """Return whether there is nothing to start or probe."""
        return all(process.ready or process.has_succeeded for process in self.processes.values())

    def run(self, starter: StarterProcess) -> None:
        """Keep the components running until a signal, or until the process that started the cluster has ended."""
        self.save_status()
        while True:
            changed = self.reap()
            changed = self.advance() or changed
            if changed:
                self.save_status()
            received = signal.sigtimedwait(WAKE_SIGNALS, SLOW_TICK_SECONDS if self.is_settled() else TICK_SECONDS)
            if received is not None and received.si_signo in (signal.SIGTERM, signal.SIGINT):
                return
            if starter.has_ended():
                print("the process that started this cluster has ended; stopping", file=sys.stderr, flush=True)
                return

    def stop(self) -> None:
        """Stop components in reverse order: clients first, so that the API server has no open requests."""
        deadline = time.monotonic() + 2 * STOP_SECONDS
        stages: tuple[tuple[str, ...], ...] = (
            tuple(name for name in self.processes if name not in ("etcd", "apiserver", "containerd")),
            ("apiserver", "containerd"),
            ("etcd",),
        )
        for stage in stages:
            self._stop_stage([self.processes[name] for name in stage if name in self.processes], deadline)

    def _stop_stage(self, processes: list[ComponentProcess], deadline: float) -> None:
        pids = {process.pid for process in processes if process.pid}
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
    for signal_number in WAKE_SIGNALS:
        signal.signal(signal_number, lambda *_: None)
    plan = SupervisorPlan.from_json(text)
    namespaces.set_up(plan)
    supervisor = Supervisor(plan)
    supervisor.run(StarterProcess())
    supervisor.stop()


if __name__ == "__main__":
    main()
