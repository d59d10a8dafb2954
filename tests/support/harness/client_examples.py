"""The examples of the documentation in each language. Each is executed as a program, with the API's URL and key in its
environment.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from local.devstack.config import ROOT

SDK = ROOT / "sdk"
NAMES = ("send", "check", "result", "cancel", "preferences", "event", "webhook")
# The title of a tab → the folder of its examples and their suffix, in the order of the tabs.
LANGUAGES = {
    "curl": (SDK / "curl", ".sh"),
    "Python": (SDK / "python" / "examples", ".py"),
    "TypeScript": (SDK / "typescript" / "examples", ".ts"),
    "Java": (SDK / "java" / "examples", ".java"),
}


def file_of(language: str, name: str) -> Path:
    """Return the file of an example. Classes of Java begin with a capital."""
    folder, suffix = LANGUAGES[language]
    return folder / f"{name.capitalize() if language == 'Java' else name}{suffix}"


def languages(name: str) -> list[str]:
    """Return the languages that have an example, in the order of the tabs."""
    return [language for language in LANGUAGES if file_of(language, name).exists()]


def compile_java(classes: Path) -> None:
    """Compile the examples in Java to a folder. `make setup` has compiled the client."""
    command = [_java("javac"), "-Xlint:all", "-Werror", "-d", str(classes), "-cp", _class_path()]
    subprocess.run([*command, *map(str, sorted(LANGUAGES["Java"][0].glob("*.java")))], check=True)


def command(language: str, name: str, classes: Path) -> list[str]:
    """Return the command that executes an example. `classes` is the folder of compile_java."""
    file = file_of(language, name)
    match language:
        case "curl":
            return ["bash", "-e", str(file)]
        case "Python":
            return [sys.executable, str(file)]
        case "TypeScript":
            return ["node", "--import", str(SDK / "typescript" / "test" / "run-typescript.js"), str(file)]
        case _:
            fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
            return [_java("java"), *fast, "-cp", f"{classes}{os.pathsep}{_class_path()}", file.stem]


def environment(**values: str) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(SDK / "python"), **values}


def output(language: str, name: str, *arguments: str, classes: Path, url: str, key: str) -> str:
    """Execute an example, and return its output. Raises CalledProcessError."""
    done = subprocess.run(
        [*command(language, name, classes), *arguments],
        env=environment(MASSCOMM_API_URL=url, MASSCOMM_API_KEY=key),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def _java(program: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / program) if home else shutil.which(program) or program


def _class_path() -> str:
    target = SDK / "java" / "target"
    return f"{target / 'classes'}{os.pathsep}{target / 'lib'}/*"
