"""Prepares the process of a local server, then executes the server's own command.

Runs as `python -I -S child.py PARENT SIGNAL OWNED -- COMMAND…` between the stack and each service. The process ends
with the stack, and does not run as root if the service refuses root. The child itself must set this up, because code
between fork and exec of a process with threads is not safe.

PARENT  pid of the stack SIGNAL  signal that the service gets when the stack dies OWNED   "" to keep the user; else the
files and folders, separated by colons, that a service without root must own
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
# The uid and gid of an unprivileged user, used if the kernel forbids user namespaces.
UNPRIVILEGED = 65534


def leave_root(owned: str) -> None:
    """Give up root privileges, because PostgreSQL refuses to run as root.

    A separate user namespace maps root to another id, so that the process still owns its files. If the kernel forbids
    user namespaces, the process changes to the uid UNPRIVILEGED, which gets the files in `owned`.
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
    # Services store passwords and personal addresses in their files, so only the owner may read them.
    os.umask(0o077)
    if owned:
        leave_root(owned)
    # The signal is set after leave_root, because a change of credentials clears it.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):
        sys.exit("the stack ended before this service began")
    os.execvp(command[0], command)  # noqa: S606 - running the given command is what this file is for


if __name__ == "__main__":
    main()
