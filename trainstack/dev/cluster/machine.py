"""Refuse to start on a machine that cannot hold the cluster, naming all that is missing."""

import shutil

from trainstack.dev.cluster.errors import ClusterError
from trainstack.dev.toolchain import debian, machine


def check() -> None:
    """Raise with everything that is missing and how to mend it."""
    findings = [str(finding) for finding in machine.missing()]
    # Without apt-get the machine is no Debian: `missing` has looked for the programs themselves.
    if shutil.which("apt-get") and (packages := debian.missing()):
        findings.append(f"Debian packages are missing: apt-get install {' '.join(packages)}")
    if findings:
        raise ClusterError("\n  - ".join(["This machine cannot run the local cluster:", *findings]))
