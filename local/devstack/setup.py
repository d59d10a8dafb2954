"""Builds everything that the project needs: two virtual environments, the jars, the compiled launcher.

`make` runs this program with any `python3`; it uses the standard library only. It first checks the prerequisites: it
prints a line for each missing or wrong one, and exits with status 1 before any download. A part that is up to date is
not built again: its stamp contains the hash of its sources (lock file, poms, code).

An older Python 3 must be able to parse this file and print its message. Therefore code above `main` must not need 3.13.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The folder of the package masscomm_client.
CLIENT = os.path.join(ROOT, "sdk", "python")
WORK = os.path.join(ROOT, ".devstack")
VENV = os.path.join(ROOT, ".venv")
LOCALSTACK_VENV = os.path.join(WORK, "localstack-venv")
JARS = os.path.join(WORK, "jars")
SERVICE_CATALOG = os.path.join(WORK, "service-catalog")
CLASSES = os.path.join(WORK, "classes")
# The archive of the classes that Spark's driver loads.
SPARK_ARCHIVE = os.path.join(WORK, "spark-archive")
LAUNCHERS = os.path.join(CLASSES, "launchers.jar")
# The plug-in for Kafka Connect: Debezium, and masscomm's classes: folder, class and the service that it provides.
CONNECT_PLUGIN = os.path.join(WORK, "connect-plugin")
CONNECT_CLASSES = (
    (
        "secrets-manager",
        "masscomm/connect/SecretsManagerConfigProvider",
        "org.apache.kafka.common.config.provider.ConfigProvider",
    ),
    ("truncate-key", "masscomm/connect/TruncateKey", "org.apache.kafka.connect.transforms.Transformation"),
)
CONNECT_TASK = os.path.join(WORK, "connect-task")
# The web console, and the clients in TypeScript and Java.
WEB = os.path.join(ROOT, "web")
DOCS = os.path.join(WEB, "dist-docs")
TYPESCRIPT_CLIENT = os.path.join(ROOT, "sdk", "typescript")
JAVA_CLIENT = os.path.join(ROOT, "sdk", "java")
PYTHON = "3.13"
JAVA_MAJOR = 17
NODE_MAJOR = 20
MAVEN_OPTIONS = ("-B", "-ntp")
# The SHA-256 of every jar, as `sha256sum` prints it: the module and the name of each file that Maven fetches.
JAR_LOCK = os.path.join(ROOT, "local", "devstack", "jars", "SHA256SUMS")
CONNECT_MODULE = "connect"
JAVA_CLIENT_MODULE = "java_client"
# What the parts of a first setup take in the project's folder, in bytes; caches of uv, npm and Maven are elsewhere.
DISK_BYTES = 3_000_000_000
# After this time, and again after each such time, a line says that a command is still running, and how much the
# network has brought.
STILL_S = 5.0


class SetupError(Exception):
    """A prerequisite is missing or a step failed; the message is shown to the user."""


# --- prerequisites ----------------------------------------------------------------------------------------------------


def _first_line(command: "list[str]") -> str:
    """Return the output of a version command (Java prints to standard error), or "" if the command cannot be run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def find_python() -> str:
    """Return the path of a Python 3.13: `python3.13`, or else `python3` if that is version 3.13 (as with pyenv)."""
    script = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"
    seen = ""
    for name in ("python3.13", "python3", sys.executable):
        lines = _first_line([name, "-c", script]).split("\n")
        if lines[0] == PYTHON:
            return lines[1]
        if lines[0]:
            seen = seen or f" ({name} is {lines[0]})"
    raise SetupError(f"Python {PYTHON} is needed and not found{seen}: install it, or let pyenv choose it.")


def find_jdk() -> str:
    """Return the home folder of a JDK 17: JAVA_HOME, or else that of `java` on PATH. Any other major version is
    refused.
    """
    home = os.environ.get("JAVA_HOME", "")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java") or ""
    where = f"JAVA_HOME={home}" if home else "PATH"
    if not java:
        raise SetupError(f"JDK {JAVA_MAJOR} is needed and no java is on PATH: install it, or set JAVA_HOME.")
    output = _first_line([java, "-version"])
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    if not found:
        raise SetupError(
            f"JDK {JAVA_MAJOR} is needed and the java of {where} does not run: install it, or set JAVA_HOME."
        )
    if int(found.group(1)) != JAVA_MAJOR:
        wrong = f"the java of {where} is {found.group(1)}"
        raise SetupError(f"JDK {JAVA_MAJOR} is needed and {wrong}: point JAVA_HOME at a JDK {JAVA_MAJOR}.")
    home = home or os.path.dirname(os.path.dirname(os.path.realpath(java)))
    if not os.access(os.path.join(home, "bin", "javac"), os.X_OK):
        raise SetupError(f"JDK {JAVA_MAJOR} is needed and {home} has no javac (a JRE only): install the JDK.")
    return home


def find_node() -> str:
    """Return the path of a Node.js that is new enough. aws-cdk-lib for Python runs it, even in the tests of the
    templates.
    """
    node = shutil.which("node") or ""
    if not node:
        raise SetupError(f"Node.js {NODE_MAJOR} or newer is needed and no node is on PATH: install it.")
    found = re.match(r"v(\d+)\.", _first_line([node, "--version"]))
    if not found:
        raise SetupError(f"Node.js {NODE_MAJOR} or newer is needed and the node of PATH does not run: install it.")
    if int(found.group(1)) < NODE_MAJOR:
        raise SetupError(
            f"Node.js {NODE_MAJOR} or newer is needed and the node of PATH is {found.group(1)}: install a newer one."
        )
    return node


def check_prerequisites() -> "dict[str, str]":
    """Return the paths of the prerequisites: python, java_home, node, npm, mvn, make. Raises SetupError with a line for
    each problem.
    """
    problems = []
    found = {}
    for name, finder in (("python", find_python), ("java_home", find_jdk), ("node", find_node)):
        try:
            found[name] = finder()
        except SetupError as error:
            problems.append(str(error))
    for tool, title in (("npm", "npm (of Node.js)"), ("mvn", "Maven"), ("make", "make")):
        path = shutil.which(tool)
        if path:
            found[tool] = path
        else:
            problems.append(f"{title} is needed and {tool} is not on PATH: install it.")
    free = shutil.disk_usage(ROOT).free
    if not os.path.isdir(VENV) and free < DISK_BYTES:
        needed = f"{DISK_BYTES / 1e9:.0f} GB of free disk are needed in {ROOT}"
        problems.append(f"{needed} and {free / 1e9:.1f} GB are free: delete something, or clone into another folder.")
    if problems:
        raise SetupError("\n".join(problems))
    return found


# --- stamps and steps -------------------------------------------------------------------------------------------------


def digest(*parts: str) -> str:
    """Return a hash of the files among `parts` (by their content) and of the other parts (as text)."""
    total = hashlib.sha256()
    for part in parts:
        if os.path.isfile(part):
            with open(part, "rb") as file:
                total.update(file.read())
        else:
            total.update(part.encode())
        total.update(b"\0")
    return total.hexdigest()


def fresh(folder: str, stamp: str) -> bool:
    """Return whether `folder` was made from the sources whose hash is `stamp`."""
    try:
        with open(os.path.join(folder, ".stamp")) as file:
            return file.read() == stamp
    except OSError:
        return False


def write_stamp(folder: str, stamp: str) -> None:
    with open(os.path.join(folder, ".stamp"), "w") as file:
        file.write(stamp)


def received_bytes() -> int:
    """Return the bytes that this machine has received from others: the package managers report no common progress."""
    with open("/proc/net/dev") as file:
        lines = [line.split(":") for line in file if ":" in line]
    return sum(int(counters.split()[0]) for name, counters in lines if name.strip() != "lo")


class Steps:
    """Runs the commands of the steps. Each step has a log file. A plain line is printed when it begins, while it runs,
    and when it ends.
    """

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.received = received_bytes()
        self.lock = threading.Lock()

    def report(self, text: str) -> None:
        with self.lock:
            print(f"setup {time.monotonic() - self.begun:6.1f} s  {text}", flush=True)

    def run(self, step: str, command: "list[str]", environment: "dict[str, str]") -> None:
        """Run `command`, with its output in .devstack/logs/<step>.log. Raises SetupError with the end of that log."""
        log = os.path.join(WORK, "logs", step + ".log")
        with open(log, "ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=ROOT)
            while True:
                try:
                    status = process.wait(STILL_S)
                    break
                except subprocess.TimeoutExpired:
                    megabytes = (received_bytes() - self.received) / 1e6
                    self.report(f"{step}: still running, {megabytes:,.0f} MB received")
        if status:
            with open(log, errors="replace") as file:
                tail = "".join(file.readlines()[-20:])
            raise SetupError(
                f"{step}: {os.path.basename(command[0])} ended with status {status}; the end of {log}:\n{tail}"
            )

    def together(self, *steps: "tuple[str, Callable[[], bool]]") -> None:
        """Run the (name, function) steps in parallel. When all have ended, raises SetupError with all failures."""
        failures: list[str] = []

        def guarded(name: str, function: "Callable[[], bool]") -> None:
            try:
                began = time.monotonic()
                if function():
                    self.report(f"{name}: done in {time.monotonic() - began:.1f} s")
            except Exception as error:
                failures.append(f"{name}: {error}" if not isinstance(error, SetupError) else str(error))
                self.report(f"{name}: failed; the reason follows when the other steps have ended")

        # Daemon threads end with the main thread, so that Ctrl-C does not wait for a download.
        threads = [threading.Thread(target=guarded, args=step, daemon=True) for step in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise SetupError("\n".join(failures))


# --- the parts --------------------------------------------------------------------------------------------------------


def package_index(pip: str) -> "dict[str, str]":
    """Return uv's settings for the mirror and the certificates that a user has configured for pip, because uv does
    not read pip's configuration.
    """
    names = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "cert": "SSL_CERT_FILE"}
    environment = {}
    for line in _first_line([pip, "config", "list"]).split("\n"):
        found = re.match(r"(?:global|install|:env:)\.([a-z-]+)='(.*)'$", line)
        if found and found.group(1) in names and names[found.group(1)] not in os.environ:
            environment[names[found.group(1)]] = found.group(2)
    return environment


def make_uv(steps: Steps, python: str) -> str:
    """Return the path of a pinned uv, which has a small environment of its own."""
    folder = os.path.join(WORK, "uv")
    lock = os.path.join(ROOT, "requirements", "bootstrap.txt")
    stamp = digest(lock, python)
    if not fresh(folder, stamp):
        steps.report("uv: installing")
        steps.run("uv", [python, "-m", "venv", "--clear", folder], dict(os.environ))
        pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--require-hashes", "-r", lock]
        steps.run("uv", pip, dict(os.environ))
        write_stamp(folder, stamp)
    return os.path.join(folder, "bin", "uv")


def make_environment(steps: Steps, uv: str, python: str, folder: str, lock: str, environment: "dict[str, str]") -> bool:
    """Create a virtual environment with exactly the packages in the file `lock`. Return whether anything had to be
    done.
    """
    name = os.path.basename(folder).lstrip(".")
    stamp = digest(lock, python)
    if fresh(folder, stamp):
        return False
    steps.report(f"{name}: installing {os.path.relpath(lock, ROOT)}")
    if os.path.basename(os.path.realpath(os.path.join(folder, "bin", "python"))) != os.path.basename(
        os.path.realpath(python)
    ):
        steps.run(name, [uv, "venv", "--clear", "--no-project", "--python", python, folder], environment)
    interpreter = os.path.join(folder, "bin", "python")
    steps.run(
        name, [uv, "pip", "sync", "--no-progress", "--require-hashes", "--python", interpreter, lock], environment
    )
    write_stamp(folder, stamp)
    return True


def make_service_catalog(steps: Steps) -> bool:
    """Build LocalStack's index of all AWS services; LocalStack would otherwise build it (20 s, 350 MB) in every new
    state folder.
    """
    stamp = digest(os.path.join(ROOT, "requirements", "localstack.txt"))
    if fresh(SERVICE_CATALOG, stamp):
        return False
    steps.report("service catalog: building")
    shutil.rmtree(SERVICE_CATALOG, ignore_errors=True)
    # localstack.aws.spec writes the catalogue to /usr/lib/localstack below FILESYSTEM_ROOT.
    os.makedirs(os.path.join(SERVICE_CATALOG, "usr", "lib", "localstack"))
    environment = {**os.environ, "FILESYSTEM_ROOT": SERVICE_CATALOG, "OVERRIDE_IN_DOCKER": "0"}
    python = os.path.join(LOCALSTACK_VENV, "bin", "python")
    steps.run("service-catalog", [python, "-m", "localstack.aws.spec"], environment)
    write_stamp(SERVICE_CATALOG, stamp)
    return True


def install_project() -> None:
    """Put the checkout and the client on the path of the main environment and create the `masscomm` command, without
    using a package registry.
    """
    with open(os.path.join(VENV, "lib", f"python{PYTHON}", "site-packages", "masscomm-checkout.pth"), "w") as file:
        file.write(f"{ROOT}\n{CLIENT}\n")
    command = os.path.join(VENV, "bin", "masscomm")
    with open(command, "w") as file:
        file.write(f"#!{VENV}/bin/python\nimport sys\n\nfrom cli.main import main\n\nsys.exit(main())\n")
    os.chmod(command, 0o755)  # noqa: S103 - a command, for whoever may read the checkout


def sums_of(folder: str, module: str) -> "dict[str, str]":
    """Return the SHA-256 of each file in a folder, by "module/name"."""
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            found[f"{module}/{name}"] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def read_jar_lock() -> "dict[str, str]":
    """Return the locked SHA-256 of each file, by "module/name"."""
    with open(JAR_LOCK) as file:
        return {path: total for total, path in (line.split() for line in file)}


def check_jars(found: "dict[str, str]") -> None:
    """Raise SetupError with each fetched file that is not exactly the locked one. A registry could replace a file
    together with its checksum, so only the lock is trusted.
    """
    modules = {path.split("/")[0] for path in found}
    locked = {path: total for path, total in read_jar_lock().items() if path.split("/")[0] in modules}
    wrong = [path for path in sorted(found.keys() | locked.keys()) if found.get(path) != locked.get(path)]
    if wrong:
        lines = [f"  {path}: {found.get(path, 'missing')}, locked {locked.get(path, 'nothing')}" for path in wrong]
        raise SetupError("\n".join(["jars: not the locked files (`make lock` writes the lock):", *lines]))


def lock_jars(found: "dict[str, str]") -> None:
    """Write the lock of these files; those of other modules stay."""
    modules = {path.split("/")[0] for path in found}
    kept = {path: total for path, total in read_jar_lock().items() if path.split("/")[0] not in modules}
    with open(JAR_LOCK, "w") as file:
        file.writelines(f"{total}  {path}\n" for path, total in sorted({**kept, **found}.items()))


def fetch_jars(steps: Steps, step: str, maven: str, java_home: str, pom: str, *options: str) -> None:
    """Copy the dependencies of a pom with Maven."""
    environment = {**os.environ, "JAVA_HOME": java_home}
    # Maven's plug-in runs here, and the lock does not contain it: a missing or wrong checksum is an error.
    steps.run(step, [maven, *MAVEN_OPTIONS, "--strict-checksums", "-N", "-f", pom, "dependency:help"], environment)
    steps.run(step, [maven, *MAVEN_OPTIONS, "-f", pom, "dependency:copy-dependencies", *options], environment)


def make_jars(steps: Steps, maven: str, java_home: str, check: "Callable[[dict[str, str]], None]") -> bool:
    """Download the jars of every module to .devstack/jars/<module>, with archives unpacked. Return whether anything
    had to be done. `check` gets the SHA-256 of the files.
    """
    poms = os.path.join(ROOT, "local", "devstack", "jars")
    modules = sorted(name for name in os.listdir(poms) if os.path.isdir(os.path.join(poms, name)))
    sources = [JAR_LOCK, *[os.path.join(poms, name, "pom.xml") for name in ["", *modules]]]
    if fresh(JARS, digest(*sources)):
        return False
    steps.report("jars: fetching with Maven")
    shutil.rmtree(JARS, ignore_errors=True)
    os.makedirs(JARS)
    fetch_jars(steps, "jars", maven, java_home, os.path.join(poms, "pom.xml"), "-T", "4", f"-Dmasscomm.jars={JARS}")
    found: dict[str, str] = {}
    for module in modules:
        found.update(sums_of(os.path.join(JARS, module), module))
    check(found)
    for module in modules:
        folder = os.path.join(JARS, module)
        for name in os.listdir(folder):
            if name.endswith(".tar.gz"):
                with tarfile.open(os.path.join(folder, name)) as archive:
                    archive.extractall(folder, filter="data")
                os.remove(os.path.join(folder, name))
    write_stamp(JARS, digest(*sources))
    return True


def compile_launchers(steps: Steps, java_home: str) -> bool:
    """Compile the Java classes of the devstack against the servers that they launch. Return whether anything was
    compiled.
    """
    sources = os.path.join(ROOT, "local", "devstack", "services", "java")
    files = [os.path.join(sources, name) for name in sorted(os.listdir(sources)) if name.endswith(".java")]
    launched = ("opensearch", "dynamodb")
    stamp = digest(
        "jar", *[os.path.join(ROOT, "local", "devstack", "jars", name, "pom.xml") for name in launched], *files
    )
    if fresh(CLASSES, stamp):
        return False
    shutil.rmtree(CLASSES, ignore_errors=True)
    os.makedirs(CLASSES)
    command = [os.path.join(java_home, "bin", "javac"), "-nowarn", "-d", CLASSES]
    command += ["-cp", os.pathsep.join(os.path.join(JARS, name, "*") for name in launched), *files]
    steps.run("launchers", command, dict(os.environ))
    # The classes are packed in a jar, because class data sharing does not work with a folder on the class path.
    with zipfile.ZipFile(LAUNCHERS, "w") as archive:
        for name in sorted(os.listdir(CLASSES)):
            if name.endswith(".class"):
                archive.write(os.path.join(CLASSES, name), name)
    write_stamp(CLASSES, stamp)
    return True


def make_spark_archive(steps: Steps, java_home: str) -> bool:
    """Make the archive of the classes that Spark's driver loads. Return whether it was made."""
    stamp = digest(os.path.join(ROOT, "requirements", "main.txt"), os.path.join(java_home, "release"))
    if fresh(SPARK_ARCHIVE, stamp):
        return False
    shutil.rmtree(SPARK_ARCHIVE, ignore_errors=True)
    os.makedirs(SPARK_ARCHIVE)
    command = [os.path.join(VENV, "bin", "python"), "-m", "local.devstack.spark_archive"]
    steps.run("spark-archive", command, {**os.environ, "JAVA_HOME": java_home})
    write_stamp(SPARK_ARCHIVE, stamp)
    return True


def make_connect_plugin(steps: Steps, maven: str, java_home: str, check: "Callable[[dict[str, str]], None]") -> bool:
    """Build the plug-in for Kafka Connect, with a folder for each of its parts. Return whether anything had to be done.
    `check` gets the SHA-256 of the fetched jars.
    """
    pom = os.path.join(ROOT, "infra", "connect", "pom.xml")
    java_files = {name: os.path.join(os.path.dirname(pom), f"{name}.java") for _, name, _ in CONNECT_CLASSES}
    sources = [
        JAR_LOCK,
        pom,
        *java_files.values(),
        os.path.join(ROOT, "local", "devstack", "jars", "debezium", "pom.xml"),
    ]
    if fresh(CONNECT_PLUGIN, digest(*sources)):
        return False
    shutil.rmtree(CONNECT_PLUGIN, ignore_errors=True)
    shutil.copytree(os.path.join(JARS, "debezium"), CONNECT_PLUGIN)
    secrets = os.path.join(CONNECT_PLUGIN, "secrets-manager")
    fetch_jars(steps, "connect-plugin", maven, java_home, pom, f"-DoutputDirectory={secrets}")
    check(sums_of(secrets, CONNECT_MODULE))
    for part, name, service in CONNECT_CLASSES:
        folder = os.path.join(CONNECT_PLUGIN, part)
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory() as classes:
            path = os.pathsep.join(os.path.join(each, "*") for each in (os.path.join(JARS, "kafka"), folder))
            javac = os.path.join(java_home, "bin", "javac")
            steps.run("connect-plugin", [javac, "-d", classes, "-cp", path, java_files[name]], dict(os.environ))
            with zipfile.ZipFile(os.path.join(folder, f"masscomm-{part}.jar"), "w") as archive:
                with open(os.path.join(classes, f"{name}.class"), "rb") as compiled:
                    # The time in the archive is fixed, because a deployment replaces the plug-in when its hash changes.
                    archive.writestr(zipfile.ZipInfo(f"{name}.class"), compiled.read())
                archive.writestr(zipfile.ZipInfo(f"META-INF/services/{service}"), name.replace("/", ".") + "\n")
    write_stamp(CONNECT_PLUGIN, digest(*sources))
    return True


def make_connect_task(steps: Steps, java_home: str) -> bool:
    """Compile the program with which a task on Fargate runs Kafka Connect. Return whether anything had to be done."""
    source = os.path.join(ROOT, "infra", "connect", "masscomm", "connect", "ConnectTask.java")
    stamp = digest(JAR_LOCK, source)
    if fresh(CONNECT_TASK, stamp):
        return False
    shutil.rmtree(CONNECT_TASK, ignore_errors=True)
    os.makedirs(CONNECT_TASK)
    with tempfile.TemporaryDirectory() as classes:
        javac = os.path.join(java_home, "bin", "javac")
        path = os.path.join(JARS, "kafka", "*")
        steps.run("connect-task", [javac, "-d", classes, "-cp", path, source], dict(os.environ))
        with zipfile.ZipFile(os.path.join(CONNECT_TASK, "masscomm-connect-task.jar"), "w") as archive:
            package = os.path.join(classes, "masscomm", "connect")
            for name in sorted(os.listdir(package)):
                with open(os.path.join(package, name), "rb") as compiled:
                    # The time in the archive is fixed, because the tag of the image changes with the archive.
                    archive.writestr(zipfile.ZipInfo(f"masscomm/connect/{name}"), compiled.read())
    write_stamp(CONNECT_TASK, stamp)
    return True


def make_java_client(steps: Steps, maven: str, java_home: str, check: "Callable[[dict[str, str]], None]") -> bool:
    """Compile the Java client to its folder target/classes, with its libraries in target/lib. Return whether anything
    had to be done. `check` gets the SHA-256 of the libraries.
    """
    pom, target = os.path.join(JAVA_CLIENT, "pom.xml"), os.path.join(JAVA_CLIENT, "target")
    stamp = digest(JAR_LOCK, pom, *files_of(JAVA_CLIENT, "src", "main"))
    if fresh(target, stamp):
        return False
    steps.report("java client: compiling")
    shutil.rmtree(target, ignore_errors=True)
    # A run of Maven takes seconds to begin: this one also compiles.
    fetch_jars(steps, "java-client", maven, java_home, pom, "--strict-checksums", "compile")
    check(sums_of(os.path.join(target, "lib"), JAVA_CLIENT_MODULE))
    write_stamp(target, stamp)
    return True


def make_web(steps: Steps, npm: str) -> bool:
    """Build the TypeScript client, the console and the documentation's site. Return whether anything had to be done.

    One after the other: the console contains the client's source, with its generated types and its packages, and the
    site uses the packages of the console.
    """
    made = [
        make_npm_package(steps, npm, "client", TYPESCRIPT_CLIENT, TYPESCRIPT_CLIENT),
        make_npm_package(steps, npm, "console", WEB, WEB, TYPESCRIPT_CLIENT),
        make_docs(steps, npm),
    ]
    return any(made)


def make_npm_package(steps: Steps, npm: str, name: str, package: str, *sources_of: str) -> bool:
    """Build a package into its folder dist from the sources of packages. Return whether anything had to be done."""
    sources = []
    for each in sources_of:
        sources += [path for entry in sorted(os.listdir(each)) if os.path.isfile(path := os.path.join(each, entry))]
        # schema.ts is generated from the API's description.
        sources += [
            path for folder in ("src", "public") for path in files_of(each, folder) if not path.endswith("schema.ts")
        ]
    stamp = digest(os.path.join(ROOT, "docs", "openapi", "masscomm.json"), *sources)
    return run_npm_script(steps, npm, name, package, "build", os.path.join(package, "dist"), stamp)


def make_docs(steps: Steps, npm: str) -> bool:
    """Build the documentation's site. Return whether anything had to be done."""
    stamp = digest(os.path.join(WEB, "package-lock.json"), *files_of(WEB, "site"), *files_of(ROOT, "docs"))
    return run_npm_script(steps, npm, "docs", WEB, "docs", DOCS, stamp)


def files_of(*folder: str) -> "list[str]":
    """Return the paths of the files below a folder, in order."""
    found = []
    for path, folders, names in os.walk(os.path.join(*folder)):
        folders.sort()
        found += [os.path.join(path, name) for name in sorted(names)]
    return found


def run_npm_script(steps: Steps, npm: str, name: str, package: str, script: str, built: str, stamp: str) -> bool:
    """Run a script of a package.json unless `built` is fresh, after its packages are installed. Return whether
    anything had to be done.
    """
    if fresh(built, stamp):
        return False
    steps.report(f"{name}: building")
    lock = digest(os.path.join(package, "package-lock.json"))
    modules = os.path.join(package, "node_modules")
    if not fresh(modules, lock):
        install = [npm, "ci", "--prefix", package, "--no-audit", "--no-fund", "--loglevel=error"]
        steps.run(name, install, dict(os.environ))
        write_stamp(modules, lock)
    steps.run(name, [npm, "run", script, "--prefix", package], dict(os.environ))
    write_stamp(built, stamp)
    return True


def make_browser(steps: Steps) -> bool:
    """Install Debian's Chromium for the browser tests, its Prometheus for the test of the dashboard and its zsh for the
    test of completion, if they are missing and this user may install packages. Return whether a package was installed.
    """
    has_browser = os.environ.get("CHROME_PATH") or shutil.which("chromium")
    missing = ([] if has_browser else ["chromium"]) + [name for name in ("prometheus", "zsh") if not shutil.which(name)]
    if not missing:
        return False
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        if has_browser:
            return False  # Only a nightly test needs Prometheus and fails without it; that of zsh is skipped.
        raise SetupError("Chromium is needed by the tests of the console: install it, or set CHROME_PATH.")
    steps.report(f"browser: installing Debian's {', '.join(missing)}")
    steps.run("browser", ["apt-get", "update"], dict(os.environ))
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    steps.run("browser", ["apt-get", "install", "-y", "--no-install-recommends", *missing], environment)
    return True


def main() -> int:
    """Check the prerequisites, then build the missing parts. Return exit status 0, 1 after printing the problem, or 130
    after Ctrl-C.
    """
    try:
        found = check_prerequisites()
        if sys.version_info[:2] != tuple(int(part) for part in PYTHON.split(".")):
            os.execv(found["python"], [found["python"], os.path.abspath(__file__), *sys.argv[1:]])  # noqa: S606 - itself, by another Python
        if "--check" in sys.argv:
            return 0
        shutil.rmtree(os.path.join(WORK, "logs"), ignore_errors=True)
        os.makedirs(os.path.join(WORK, "logs"))
        steps = Steps()

        def jars() -> bool:
            check = check_jars
            if "--lock-jars" in sys.argv:
                check = lock_jars
                for folder in (JARS, CONNECT_PLUGIN, os.path.join(JAVA_CLIENT, "target")):
                    shutil.rmtree(folder, ignore_errors=True)
            fetched = make_jars(steps, found["mvn"], found["java_home"], check)
            made = compile_launchers(steps, found["java_home"])
            # One after the other: Maven's repository is not made for several processes.
            plugin = make_connect_plugin(steps, found["mvn"], found["java_home"], check)
            client = make_java_client(steps, found["mvn"], found["java_home"], check)
            task = make_connect_task(steps, found["java_home"])
            return task or client or plugin or made or fetched

        def environments() -> bool:
            locks = os.path.join(ROOT, "requirements")
            wanted = [(VENV, os.path.join(locks, "main.txt")), (LOCALSTACK_VENV, os.path.join(locks, "localstack.txt"))]
            if all(fresh(folder, digest(lock, found["python"])) for folder, lock in wanted):
                return make_service_catalog(steps)
            uv = make_uv(steps, found["python"])
            environment = {**os.environ, **package_index(os.path.join(WORK, "uv", "bin", "pip"))}

            def maker(folder: str, lock: str) -> "tuple[str, Callable[[], bool]]":
                name = os.path.basename(folder).lstrip(".")

                def make() -> bool:
                    made = make_environment(steps, uv, found["python"], folder, lock, environment)
                    return (folder == LOCALSTACK_VENV and make_service_catalog(steps)) or made

                return name, make

            steps.together(*[maker(folder, lock) for folder, lock in wanted])
            return False

        wanted_steps = [
            ("jars", jars),
            ("environments", environments),
            ("web", lambda: make_web(steps, found["npm"])),
        ]
        if "--browser" in sys.argv:
            wanted_steps.append(("browser", lambda: make_browser(steps)))
        steps.together(*wanted_steps)
        install_project()
        steps.together(("spark archive", lambda: make_spark_archive(steps, found["java_home"])))
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted. Run it again: it continues with the parts that are missing.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
