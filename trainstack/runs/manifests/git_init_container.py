"""The init container that checks out a workload's code.

The credentials of a private repository are files of a Secret that only this container mounts. git reads them through a
credential helper, ssh by path, so they never appear in a variable, argument, URL or log.
"""

from trainstack.objects.labels import Manifest
from trainstack.runs.errors import WorkloadError
from trainstack.runs.launch import Launch
from trainstack.settings.sections.code import Code
from trainstack.settings.sections.workloads import Resources

CHECKOUT_CONTAINER = "checkout"
"""The init container's name."""
DEADLINE_SECONDS = 300
"""The time during which the checkout is retried if the server does not answer or the Secret does not exist."""

_VOLUME = "trainstack-code"
_SECRET_VOLUME = "trainstack-code-secret"  # noqa: S105 (a name)
_WORK = "/checkout"
_PUBLISHED = "code"
"""The folder of the volume with the finished checkout. git's working files are outside of it."""
_NOBODY = 65534
"""The user `nobody`. ssh requires a user in the image's /etc/passwd, and every image has this one."""
_SHARED_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_CREDENTIALS = "/credentials"

# Arguments: URL, revision, and the Secret's name or an empty string. Kubernetes expands $(NAME) for variables of the
# container, which has none, and `$$`, which the script does not contain. The checkout is renamed into place when it is
# complete, so a container that restarts in the same pod keeps it, with the files that a program wrote there.
_SCRIPT = r"""
set -u
umask 000  # The program may run as any user and may write files next to its code.
url=$1 revision=$2 secret=$3
work=WORK credentials=CREDENTIALS
export HOME=$work/home TMPDIR=$work LC_ALL=C
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_ALLOW_PROTOCOL=https:ssh

fail() {
  message="cannot check out $revision of $url: $1"
  echo "$message"
  echo "$message" > /dev/termination-log
  exit 1
}

# The failure is retried, because the kubelet updates the volume of a running pod once the Secret exists.
has_keys() {
  for key in "$@"; do
    test -s "$credentials/$key" && continue
    problem="Secret $secret does not exist or has no $key"
    echo "$problem"
    return 1
  done
}

use_https() {
  git config --global http.lowSpeedLimit 1000
  git config --global http.lowSpeedTime 60
  test -n "$secret" || return 0
  if test -s "$credentials/ca.crt"; then
    git config --global http.sslCAInfo "$credentials/ca.crt"
    test -e "$credentials/username" || test -e "$credentials/password" || return 0
  fi
  has_keys username password || return 1
  # The helper is limited to this server, so that a redirect cannot send the password to another server.
  git config --global "credential.$(echo "$url" | cut -d/ -f1-3).helper" '!credentials() {
    test "$1" = get || return 0
    printf "username=%s\n" "$(cat CREDENTIALS/username)"
    printf "password=%s\n" "$(cat CREDENTIALS/password)"
  }; credentials'
}

use_ssh() {
  has_keys ssh-privatekey known_hosts || return 1
  GIT_SSH_COMMAND="ssh -F /dev/null -i $credentials/ssh-privatekey -o IdentitiesOnly=yes -o BatchMode=yes"
  GIT_SSH_COMMAND="$GIT_SSH_COMMAND -o StrictHostKeyChecking=yes -o UserKnownHostsFile=$credentials/known_hosts"
  GIT_SSH_COMMAND="$GIT_SSH_COMMAND -o GlobalKnownHostsFile=/dev/null -o UpdateHostKeys=no -o ConnectTimeout=20"
  export GIT_SSH_COMMAND="$GIT_SSH_COMMAND -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
}

fetch() {
  git fetch --quiet --no-tags "$@" > "$work/output" 2>&1 && return
  problem=$(cat "$work/output")
  echo "$problem"
  case $problem in
    *"Host key verification failed"*)
      fail "the server's host key is not in known_hosts of Secret $secret" ;;
    *"Permission denied ("*)
      fail "the server rejected ssh-privatekey of Secret $secret; the key must have no passphrase" ;;
    *"could not read Username"*)
      fail "the repository does not exist or is private; for a private repository, set code.secret" ;;
    *"Authentication failed"* | *"returned error: 403"*)
      fail "the server rejected username and password of Secret $secret" ;;
    *ertificate*)
      fail "the server's certificate is not trusted; add ca.crt with its CA to the Secret of code.secret" ;;
    *"epository"*" not found"* | *"not appear to be a git repository"* | *"returned error: 404"*)
      fail "the repository does not exist, or the credentials do not permit access to it" ;;
  esac
  return 1
}

check_out() {
  cd "$work"
  rm -rf "$work/new" "$HOME"
  mkdir "$HOME"
  case $url in https://*) use_https ;; *) use_ssh ;; esac || return 1
  case ${#revision} in 64) format=sha256 ;; *) format=sha1 ;; esac
  git init --quiet --template= --object-format=$format "$work/new" || return 1
  cd "$work/new"
  git remote add origin "$url"
  if ! fetch --depth 1 origin "$revision"; then
    case $problem in
      *"not our ref"* | *"unadvertised object"* | *"shallow capabilities"*) ;;
      *) return 1 ;;
    esac
    echo "the server does not serve a single commit; fetching all branches and tags"
    fetch origin "+refs/heads/*:refs/remotes/origin/*" "+refs/tags/*:refs/tags/*" || return 1
    git cat-file -e "$revision" 2> "$work/output" || fail "no branch or tag contains this commit; push it first"
  fi
  problem="cannot write the files"
  git -c advice.detachedHead=false checkout --quiet --detach "$revision" || return 1
}

test -d "$work/PUBLISHED" && exit 0
problem="" pause=1
end=$(($(date +%s) + TIMEOUT_SECONDS))
until check_out; do
  test "$(date +%s)" -lt "$end" || fail "timed out after TIMEOUT_SECONDS s: $(echo "$problem" | tail -n 1)"
  echo "retrying in $pause s"
  sleep $pause
  test $pause -ge 16 || pause=$((pause * 2))
done
commit=$(git rev-parse HEAD)
test "$commit" = "$revision" || fail "the revision is the id of a tag object; use its commit $commit"
test ! -e .gitmodules || echo "warning: submodules are not checked out"
grep -qs filter=lfs .gitattributes && echo "warning: Git LFS files are checked out as pointers"
cd "$work"
mv new PUBLISHED || fail "cannot move the files to $work/PUBLISHED"
echo "checked out $revision of $url"
"""
_SUBSTITUTIONS = {
    "CREDENTIALS": _CREDENTIALS,
    "PUBLISHED": _PUBLISHED,
    "TIMEOUT_SECONDS": str(DEADLINE_SECONDS),
    "WORK": _WORK,
}


def checkout_container(code: Code, launch: Launch, resources: Resources) -> Manifest:
    """Return the init container of the checkout. Raises WorkloadError if no image with git is known.

    It has the program's cpu, memory and ephemeral storage. Kueue and the scheduler count the larger of the two
    containers, so the pod does not request more than without a checkout.
    """
    if launch.facts.git_image is None:
        raise WorkloadError("cannot check out `code`: no image with git is known")
    mounts: list[Manifest] = [{"name": _VOLUME, "mountPath": _WORK}]
    if code.secret is not None:
        mounts.append({"name": _SECRET_VOLUME, "mountPath": _CREDENTIALS, "readOnly": True})
    result: Manifest = {
        "name": CHECKOUT_CONTAINER,
        "image": launch.facts.git_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", checkout_script(), CHECKOUT_CONTAINER, code.git, code.revision, code.secret or ""],
        # These settings also satisfy namespaces that enforce the Pod Security Standard `restricted`.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": mounts,
    }
    # The checkout needs no devices, such as GPUs.
    shared_resources = {
        kind: {name: text for name, text in amounts.items() if name in _SHARED_RESOURCES}
        for kind, amounts in resources.model_dump(exclude_defaults=True).items()
    }
    if any(shared_resources.values()):
        result["resources"] = {kind: amounts for kind, amounts in shared_resources.items() if amounts}
    return result


def checkout_volumes(code: Code) -> list[Manifest]:
    """Return the volumes for the checkout. The Secret is optional, because the script waits for it and reports it."""
    volumes: list[Manifest] = [{"name": _VOLUME, "emptyDir": {}}]
    if code.secret is not None:
        volumes.append({"name": _SECRET_VOLUME, "secret": {"secretName": code.secret, "optional": True}})
    return volumes


def checkout_mount(code: Code) -> Manifest:
    """Return the writable mount of the checkout in the program's container."""
    return {"name": _VOLUME, "mountPath": code.mount_path, "subPath": _PUBLISHED}


def checkout_script() -> str:
    """Return the script that the init container runs."""
    text = _SCRIPT
    for word, value in _SUBSTITUTIONS.items():
        text = text.replace(word, value)
    return text.strip() + "\n"
