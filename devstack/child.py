"""Become a service: die with the stack, drop root where the service refuses it, then run the service's own command.

Runs as `python -I -S child.py PARENT SIGNAL OWNED -- COMMAND…` between the stack and each service, because what it does
must happen in the child itself, and doing it between fork and exec of a process that has threads is not safe.

PARENT  pid of the stack; SIGNAL  what the service gets when the stack dies; OWNED  "" to keep the user, or the files
and folders (with a : between them) that the service, run as somebody other than root, must have for its own.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
UNPRIVILEGED = 65534  # nobody, where user namespaces are off


def leave_root(owned: str) -> None:
    """Stop being root, as PostgreSQL demands.

    In a user namespace of its own root is mapped to another id: the files stay ours, whatever the path to them. Where
    the kernel forbids such a namespace, become nobody, who is given `owned`.
    """
    if os.geteuid() != 0:
        return
    try:
        os.unshare(os.CLONE_NEWUSER)
    except OSError:
        for path in owned.split(os.pathsep):
            _give(path)
            for folder, folders, files in os.walk(path):
                for name in (*folders, *files):
                    _give(os.path.join(folder, name))
        os.setgroups([])
        os.setgid(UNPRIVILEGED)
        os.setuid(UNPRIVILEGED)
        return
    for name, text in (("setgroups", "deny"), ("uid_map", "1000 0 1"), ("gid_map", "1000 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _give(path: str) -> None:
    os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)


def main() -> None:
    parent, signal, owned, _, *command = sys.argv[1:]
    os.umask(0o077)  # what services store holds passwords and people's addresses
    if owned:
        leave_root(owned)
    # After leave_root: a change of credentials clears it.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):
        sys.exit("the stack ended before this service began")
    os.execvp(command[0], command)  # noqa: S606 - running the given command is what this file is for


if __name__ == "__main__":
    main()
