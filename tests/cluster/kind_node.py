"""kind, a node image for it and an image of the registry, from Debian's packages and Go's modules alone.

Neither the images nor the releases of programs can be downloaded on every machine that runs the tests. What is kind's
own is read from its module when the image is built: scripts, units, containerd's settings and the storage manifest. In
place of kindnet, the node has a `ptp` network.
"""

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from trainstack.local_cluster import image_archive
from trainstack.local_cluster.image_archive import Symlink
from trainstack.local_cluster.images import apt_sources, base_image
from trainstack.local_cluster.images.storage import UNSHARE_COMMAND
from trainstack.toolchain import debian as packages
from trainstack.toolchain import go_modules, go_toolchain, groups, tools
from trainstack.toolchain.go_toolchain import Go
from trainstack.toolchain.places import GO_MODULES, cache_root
from trainstack.toolchain.process_lock import hold_lock

KIND = "sigs.k8s.io/kind@v0.30.0"
ENGINE = "podman"
_PREFIX = "localhost/trainstack-test-"
REQUIRED_PACKAGES = (ENGINE, *packages.PACKAGES)
"""Debian's packages that the machine needs."""
_KUBERNETES = "k8s.io/kubernetes"
_BINARIES = ("kubelet", "kubectl")
"""Programs of the toolchain on the node."""
_NODE_PACKAGES = (
    *("ca-certificates", "conntrack", "containerd", "containernetworking-plugins", "ethtool", "findutils", "hostname"),
    *("iproute2", "iptables", "jq", "kmod", "libc-bin", "libseccomp2", "mount", "nftables", "procps", "runc", "socat"),
    *("systemd", "systemd-sysv", "util-linux"),
)
_UNUSED_UNITS = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
)
"""What kind's Dockerfile removes."""
_UNUSED_FILES = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt/archives", "var/lib/apt/lists")
_PODS = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.244.0.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
_NO_CNI = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pods-network", "namespace": "kube-system"}}
"""kind applies the manifest of a network. The one of this image needs no pods."""

# kubeadm's Corefile names more plugins than the toolchain's CoreDNS has. The order is that of upstream's plugin.cfg.
_PLUGINS = (
    *("reload", "health", "ready", "metrics", "errors", "loop", "cache", "loadbalance", "kubernetes", "forward"),
)
_DIRECTIVE_OF = {"metrics": "prometheus"}
_DNS = """\
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
%s
)

func main() {
	dnsserver.Directives = []string{%s}
	coremain.Run()
}
"""

# In namespaces of its own: containerd and the mount end with it. The images are imported here, as in kind's build: a
# node that imports them at its start is slower than kubeadm waits on a busy machine.
_FINISH = """\
set -eu
mount -t proc proc /proc
systemctl enable kubelet.service containerd.service undo-mount-hacks.service
systemctl mask systemd-binfmt.service
ctr oci spec | jq 'del(.process.rlimits)' > /etc/containerd/cri-base.json
printf 'version = 2\\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\\n' > /run/import.toml
containerd --config /run/import.toml > /run/import.log 2>&1 &
timeout 60 sh -c 'until ctr version > /dev/null 2>&1; do sleep 0.2; done' || { cat /run/import.log; exit 1; }
for image in /kind/images/*.tar; do ctr --namespace k8s.io images import --no-unpack "$image"; done
kill $!
wait $! || true
rm -rf /kind/images/* /run/*
"""


@dataclass(frozen=True)
class Built:
    programs: Path
    """Folder of `kind`, for PATH."""
    node_image: str
    registry_image: str


def missing_packages() -> list[str]:
    found = packages.read_installed()
    return [name for name in REQUIRED_PACKAGES if name not in found]


def ensure_built() -> Built:
    """Build what the cache and podman do not have: about 2 minutes on 2 cores with Go's caches filled."""
    console = Console(stderr=True, markup=False, emoji=False)
    go = go_toolchain.ensure(console)
    parts = [
        Path(__file__).read_bytes(),
        go.version.encode(),
        groups.link_flags(groups.GROUPS_BY_NAME["kubectl"]).encode(),
    ]
    parts += [file.read_bytes() for name in ("cluster", "dns") for file in sorted((GO_MODULES / name).iterdir())]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    folder = cache_root() / "kind-test" / key
    built = Built(folder / "bin", f"{_PREFIX}node:{key}", f"{_PREFIX}registry:{key}")
    with hold_lock(cache_root() / "locks" / "kind-test", console):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder) as name:
            staging = Path(name)
            if not built.programs.is_dir():
                _build_programs(go, staging / "go").rename(built.programs)
            if not _has_image(built.registry_image):
                _import_registry(built.registry_image)
            if not _has_image(built.node_image):
                _import_node(staging / "root", _kind_module(go, staging), built)
        _remove_older(folder, built)
    return built


def _remove_older(folder: Path, built: Built) -> None:
    """Remove what earlier versions of the recipe left: an image has 1 GB."""
    for image in _run([ENGINE, "images", "--format", "{{.Repository}}:{{.Tag}}"]).split():
        if image.startswith(_PREFIX) and image not in (built.node_image, built.registry_image):
            # podman refuses to remove the image of a container, for example of another checkout's test.
            subprocess.run([ENGINE, "rmi", image], capture_output=True, check=False, timeout=60)
    for other in set(folder.parent.iterdir()) - {folder}:
        if not _has_image(f"{_PREFIX}node:{other.name}"):
            shutil.rmtree(other)


def _has_image(name: str) -> bool:
    return subprocess.run([ENGINE, "image", "exists", name], check=False, timeout=60).returncode == 0


def _version() -> str:
    return go_modules.load(GO_MODULES / "cluster" / "go.mod").version(_KUBERNETES)


def _build_programs(go: Go, staging: Path) -> Path:
    """Build kind, kubeadm and CoreDNS.

    Modules that our go.mod files lack have the versions in those of upstream, verified by the checksum database.
    """
    out = staging / "bin"
    out.mkdir(parents=True)
    _go(go, staging, "install", KIND, GOBIN=str(out))
    for name in ("cluster", "dns"):
        shutil.copytree(GO_MODULES / name, staging / name)
    flags = groups.link_flags(groups.GROUPS_BY_NAME["kubectl"])
    kubeadm = f"{_KUBERNETES}/cmd/kubeadm"
    _go(go, staging / "cluster", "build", "-ldflags", flags, "-o", str(out / "kubeadm"), kubeadm)
    imported = "\n".join(f'\t_ "github.com/coredns/coredns/plugin/{name}"' for name in _PLUGINS)
    directives = ", ".join(f'"{_DIRECTIVE_OF.get(name, name)}"' for name in _PLUGINS)
    (staging / "dns" / "main.go").write_text(_DNS % (imported, directives))
    _go(go, staging / "dns", "build", "-o", str(out / "coredns"), ".")
    return out


def _kind_module(go: Go, staging: Path) -> Path:
    """Return the folder of kind's module in Go's cache."""
    return Path(str(json.loads(_go(go, staging, "mod", "download", "-json", KIND))["Dir"]))


def _go(go: Go, folder: Path, *arguments: str, **variables: str) -> str:
    environment = go.environment()
    flags = environment["GOFLAGS"].replace("-mod=readonly", "-mod=mod")
    return _run([str(go.executable), *arguments], folder, environment | {"GOFLAGS": flags} | variables)


def _run(command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-3000:]}"
    return done.stdout


def _import_registry(image: str) -> None:
    program = Path("/usr/bin/docker-registry")
    files = {"usr/bin/docker-registry": program.read_bytes()} | _libraries(Path("/"), [str(program)])
    with tempfile.TemporaryFile() as layer:
        layer.write(image_archive.layer(files))
        layer.seek(0)
        command = [ENGINE, "import", "--change", f'ENTRYPOINT ["{program}"]', "-", image]
        subprocess.run(command, stdin=layer, capture_output=True, check=True, timeout=300)


def _import_node(root: Path, module: Path, built: Built) -> None:
    mirror = apt_sources.read_sources()[0]
    include = f"--include={','.join(_NODE_PACKAGES)}"
    options = ("--variant=minbase", f"--keyring={base_image.KEYRING}", include)
    _run([*UNSHARE_COMMAND, "debootstrap", *options, mirror.suite, str(root), mirror.uri])
    _copy_files_of_kind(module / "images" / "base" / "files", root)
    _write_manifests(module, root)
    for name in _BINARIES:
        _install(root / "usr/bin" / name, tools.program(name).read_bytes())
    _install(root / "usr/bin/kubeadm", (built.programs / "kubeadm").read_bytes())
    _write_images(module, root, built.programs)
    _run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", str(root), "sh", "-c", _FINISH])
    for name in _UNUSED_FILES:
        shutil.rmtree(root / name, ignore_errors=True)
    changes = (
        'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]', "ENV container=docker", "STOPSIGNAL SIGRTMIN+3"
    )  # fmt: skip
    command = [ENGINE, "import", *(word for change in changes for word in ("--change", change)), "-", built.node_image]
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
        subprocess.run(command, stdin=packed.stdout, capture_output=True, check=True, timeout=600)
    assert packed.returncode == 0


def _copy_files_of_kind(files: Path, root: Path) -> None:
    """Do what kind's Dockerfile does, but with containerd and runc of Debian."""
    programs = ("usr/local/bin", "kind/bin")
    for file in filter(Path.is_file, files.rglob("*")):
        name = file.relative_to(files)
        _install(root / name, file.read_bytes(), 0o755 if str(name.parent) in programs else 0o644)
    for unit in [unit for pattern in _UNUSED_UNITS for unit in root.glob(pattern)]:
        unit.unlink()
    with (root / "etc/systemd/journald.conf").open("a") as settings:
        settings.write("ReadKMsg=no\n")
    containerd = root / "etc/containerd/config.toml"
    # Root in a container may lack CAP_SYS_RESOURCE.
    text = containerd.read_text().replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    containerd.write_text(text)
    for program in ("containerd", "ctr"):
        (root / "usr/local/bin" / program).symlink_to(f"/usr/bin/{program}")
    shutil.copytree(root / "usr/lib/cni", root / "opt/cni/bin")
    _install(root / "etc/cni/net.d/10-pods.conflist", json.dumps(_PODS).encode(), 0o644)
    (root / "etc/kubernetes/manifests").mkdir(parents=True)
    _install(root / "kind/version", _version().encode(), 0o644)


def _install(path: Path, content: bytes, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _storage(module: Path) -> tuple[str, dict[str, str]]:
    """Return kind's storage manifest, and the names of its images by the names of their constants."""
    source = (module / "pkg/build/nodeimage/const_storage.go").read_text()
    images = dict(re.findall(r'(?m)^const (\w+Image) = "([^"]+)"$', source))
    template = source.split("const defaultStorageManifest = `", 1)[1].rsplit("`", 1)[0]
    return re.sub(r"` \+ (\w+) \+ `", lambda found: images[found[1]], template), images


def _write_manifests(module: Path, root: Path) -> None:
    _install(root / "kind/manifests/default-storage.yaml", _storage(module)[0].encode(), 0o644)
    _install(root / "kind/manifests/default-cni.yaml", json.dumps(_NO_CNI).encode(), 0o644)


def _write_images(module: Path, root: Path, programs: Path) -> None:
    """Pack the images that kubeadm, containerd and the storage manifest name, each with one program."""
    folder = root / "kind/images"
    folder.mkdir(parents=True)
    listed = _run([str(programs / "kubeadm"), "config", "images", "list", f"--kubernetes-version={_version()}"])
    names = {reference.rsplit("/", 1)[1].partition(":")[0]: reference for reference in listed.split()}
    for name, reference in names.items():
        if name not in ("coredns", "pause", "kube-proxy"):
            path = f"usr/local/bin/{name}"
            content = _pack(reference, {path: tools.program(name).read_bytes()}, f"/{path}")
            (folder / f"{name}.tar").write_bytes(content)
    dns = {"coredns": (programs / "coredns").read_bytes()}
    (folder / "coredns.tar").write_bytes(_pack(names["coredns"], dns, "/coredns"))
    proxy = {"usr/local/bin/kube-proxy": tools.program("kube-proxy").read_bytes()} | _iptables(root)
    (folder / "kube-proxy.tar").write_bytes(_pack(names["kube-proxy"], proxy, "/usr/local/bin/kube-proxy"))
    sandbox = re.findall(r'sandbox_image = "([^"]+)"', (root / "etc/containerd/config.toml").read_text())
    for number, reference in enumerate([names["pause"], *sandbox]):
        (folder / f"pause-{number}.tar").write_bytes(image_archive.pause_image(reference, tools.program("pause")))
    images = _storage(module)[1]
    path = "usr/local/bin/local-path-provisioner"
    provisioner = {path: tools.program("local-path-provisioner").read_bytes()}
    (folder / "storage.tar").write_bytes(_pack(images["storageProvisionerImage"], provisioner, f"/{path}"))
    busybox = Path(shutil.which("busybox") or "busybox")
    helper = image_archive.helper_image(images["storageHelperImage"], busybox, _run([str(busybox), "--list"]).split())
    (folder / "helper.tar").write_bytes(helper)


def _iptables(root: Path) -> dict[str, bytes | Symlink]:
    """Return the node's iptables with its extensions and libraries, for kube-proxy."""
    program = "/usr/sbin/xtables-nft-multi"
    tables = [f"{name}{suffix}" for name in ("iptables", "ip6tables") for suffix in ("", "-save", "-restore")]
    extensions = [f"/{file.relative_to(root)}" for file in root.glob("usr/lib/*/xtables/*.so")]
    files: dict[str, bytes | Symlink] = {f"usr/sbin/{name}": Symlink(program) for name in tables}
    files |= {name[1:]: (root / name[1:]).read_bytes() for name in (program, *extensions)}
    return files | _libraries(root, [program, *extensions])


def _libraries(root: Path, programs: Sequence[str]) -> dict[str, bytes | Symlink]:
    """Return the shared libraries of programs in a root file system."""
    printed = _run(["chroot", str(root), "ldd", *programs])
    found = {name for name in re.findall(r"(/\S+) \(0x", printed) if ".so" in name}
    return {name[1:]: (root / name[1:]).read_bytes() for name in sorted(found)}


def _pack(reference: str, files: Mapping[str, bytes | Symlink], program: str) -> bytes:
    """Return a docker-archive whose program is an entry point, so that pods may give only its arguments."""
    content = image_archive.layer(files)
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [program], "Env": [image_archive.PATH]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    members = {
        "layer.tar": content,
        "config.json": json.dumps(image).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return out.getvalue()
