"""Checks the files of this folder without a container engine, and exits with 1 and a line for each thing that is wrong.

    target/venv/bin/python docker/check.py

compose.yaml is read with the YAML parser inside strictyaml, which PyIceberg brings along: nothing beyond tests/requirements.txt.
"""

import re
import sys
import tomllib
from pathlib import Path, PurePosixPath

from strictyaml.ruamel import YAML

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

wrong = []


def hold(condition, message):
    """Notes what does not hold."""
    if not condition:
        wrong.append(message)
    return condition


# References to images: a tag that names a version, or a digest.
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
VERSION = re.compile(r":v?[0-9]+\.[0-9]+[0-9A-Za-z._-]*$")


def is_pinned(image):
    return bool(DIGEST.search(image) or VERSION.search(image))


def is_unprivileged(user):
    """Numeric, so that Kubernetes can tell, and not root."""
    return bool(re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", str(user)))


class Stage:
    """A stage of the Dockerfile: the user and the entry point it ends with are those of its base where it says nothing."""

    def __init__(self, image, name, bases):
        base = bases.get(image)
        self.name = name
        self.user = base.user if base else None
        self.entrypoint = base.entrypoint if base else None


def instructions(text):
    """The instructions of a Dockerfile: lines joined, comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [line.split(None, 1) for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()]


def check_dockerfile(path):
    """The stages by name, the last one under `None`."""
    ignored = allowed(path.with_name(path.name + ".dockerignore"))
    stages, stage = {}, None
    for word, rest in instructions(path.read_text()):
        words = rest.split()
        flags = dict(flag[2:].partition("=")[::2] for flag in words if flag.startswith("--"))
        words = [word for word in words if not word.startswith("--")]
        match word.upper():
            case "FROM":
                image, name = words[0], words[2] if len(words) == 3 else None
                hold(image in stages or is_pinned(image), f"{path.name}: FROM {image}: no stage, and no version or digest")
                stage = Stage(image, name, stages)
                stages[name] = stages[None] = stage
            case "USER":
                stage.user = words[0]
            case "ENTRYPOINT":
                stage.entrypoint = rest
            case "COPY" if "from" in flags:
                source = flags["from"]
                hold(source in stages or is_pinned(source), f"{path.name}: COPY --from={source}: no stage, and no version or digest")
            case "COPY" | "ADD":
                for source in words[:-1]:
                    hold((ROOT / source).exists(), f"{path.name}: {word} {source}: there is no such file")
                    hold(ignored(source), f"{path.name}: {word} {source}: left out by {path.name}.dockerignore")
            case "ARG" | "RUN" | "WORKDIR":
                pass
            case _:
                hold(False, f"{path.name}: {word} is not an instruction that is in use here")
    for name in ("hexfloe", "timer"):
        if hold(name in stages, f"{path.name}: there is no stage {name}"):
            user, entrypoint = stages[name].user, stages[name].entrypoint
            hold(is_unprivileged(user), f"{path.name}: stage {name} runs as {user}; say a numeric user and group that are not root")
            hold((entrypoint or "").startswith("["), f"{path.name}: stage {name}: ENTRYPOINT needs a shell: {entrypoint}")
    hold(stages[None] is stages.get("hexfloe"), f"{path.name}: the last stage is {stages[None].name}, not hexfloe")
    return stages


def allowed(path):
    """Whether a path is in the build context, by an ignore file that leaves out everything but what it lists."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    hold(lines[:1] == ["*"] and all(line.startswith("!") for line in lines[1:]), f"{path.name}: not a list of what is allowed")
    listed = {line[1:].rstrip("/") for line in lines[1:]}
    for entry in listed:
        hold((ROOT / entry).exists(), f"{path.name}: {entry}: there is no such file")
    return lambda source: any(str(part) in listed for part in [PurePosixPath(source), *PurePosixPath(source).parents])


VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)([^}]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
SECRET = re.compile(r"KEY|SECRET|PASSWORD|TOKEN|CREDENTIAL")


def texts(value):
    """Every text in a tree of YAML."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def example(path):
    """The variables of an environment file. Those that are secrets have no value: nobody runs with one from a repository."""
    pairs = [line.partition("=")[::2] for line in path.read_text().splitlines() if line and not line.startswith("#")]
    for name, value in pairs:
        hold(re.fullmatch(r"[A-Z][A-Z0-9_]*", name), f"{path.name}: {name!r} is not NAME=value")
        hold(not SECRET.search(name) or not value, f"{path.name}: {name} is a secret and has a value")
    return dict(pairs)


def check_variables(compose, known):
    used = set()
    for text in texts(compose):
        for name, rest, bare in VARIABLE.findall(text):
            name = name or bare
            if not name:
                continue
            used.add(name)
            hold(name in known, f"compose.yaml: ${name} is not in .env.example")
            hold(rest.startswith(":?"), f"compose.yaml: ${name} in {text!r}: write ${{{name}:?…}}, so that a missing one is told")
    for name in known.keys() - used:
        hold(False, f".env.example: {name} is not used in compose.yaml")


def filled(text, values):
    """A text with its variables filled in from .env.example; a secret by its name."""
    return VARIABLE.sub(lambda match: values.get(match[1] or match[3]) or match[1] or match[3] or "$", text)


def mounts(name, service, compose, values):
    """What is mounted, by path in the container; `None` for a volume."""
    mounted = {}
    for entry in service.get("volumes", []):
        source, target, *mode = filled(entry, values).split(":")
        if source.startswith((".", "/")):
            path = (HERE / source).resolve()
            hold(path.exists(), f"compose.yaml: {name}: {source} is mounted and does not exist")
            hold(mode == ["ro"], f"compose.yaml: {name}: {source} is mounted for writing")
            mounted[target] = path
        else:
            hold(source in compose.get("volumes", {}), f"compose.yaml: {name}: the volume {source} is not declared")
            mounted[target] = None
    return mounted


def in_container(path, mounted):
    """The file on this side that a path in the container is."""
    for target, source in mounted.items():
        if source is not None and PurePosixPath(path).is_relative_to(target):
            return source / PurePosixPath(path).relative_to(target)
    return None


def check_command(name, service, mounted, values):
    """Files that a command of hexfloe names are there, and its catalog file finds every variable it asks for."""
    command = [filled(word, values) for word in service.get("command", [])]
    for word in (word for word in command if word.endswith(".toml")):
        file = in_container(word, mounted)
        hold(file is not None and file.is_file(), f"compose.yaml: {name}: {word} is not in the container")
    for target, source in mounted.items():
        if target.startswith("/etc/hexfloe/") and source.is_file():
            catalog = tomllib.loads(source.read_text())
            asked = {match for text in texts(catalog) for match in re.findall(r"(?<!\$)\$\{([A-Za-z0-9_]+)\}", text)}
            for missing in sorted(asked - service["environment"].keys()):
                hold(False, f"compose.yaml: {name}: {source.name} asks for ${missing}, which is not in its environment")


# Keys in use here: a misspelt one is not silently nothing.
SERVICE = """build cap_drop command depends_on environment healthcheck image ports profiles read_only restart security_opt
    stop_grace_period tmpfs user volumes""".split()
HEALTHCHECK = "interval retries start_period test timeout".split()


def check_service(name, service, compose, stages, values):
    for key in [*(service.keys() - SERVICE), *(service.get("healthcheck", {}).keys() - HEALTHCHECK)]:
        hold(False, f"compose.yaml: {name}: {key} is not a key that is in use here")
    build, image = service.get("build"), service.get("image", "")
    hold(is_pinned(image), f"compose.yaml: {name}: {image or 'no image'} has no version")
    if build:
        hold((HERE / build["context"]).resolve() == ROOT, f"compose.yaml: {name}: the build context is not the repository")
        hold((ROOT / build["dockerfile"]).is_file(), f"compose.yaml: {name}: {build['dockerfile']} does not exist")
        hold(build.get("target") in stages, f"compose.yaml: {name}: the Dockerfile has no stage {build.get('target')}")
    else:
        hold(is_unprivileged(service.get("user")), f"compose.yaml: {name}: user is {service.get('user')}, not a numeric one")
    hold(service.get("read_only") is True, f"compose.yaml: {name}: its root is not read-only")
    hold(service.get("cap_drop") == ["ALL"], f"compose.yaml: {name}: capabilities are not dropped")
    hold("no-new-privileges:true" in service.get("security_opt", []), f"compose.yaml: {name}: it may gain privileges")
    if "profiles" not in service:
        test = service.get("healthcheck", {}).get("test", ["NONE"])
        hold(test[0] in ("CMD", "CMD-SHELL") and len(test) > 1, f"compose.yaml: {name}: no health check")
        hold("restart" in service, f"compose.yaml: {name}: nothing restarts it")
    for other, how in service.get("depends_on", {}).items():
        if hold(other in compose["services"], f"compose.yaml: {name}: depends on {other}, which is no service"):
            checked = "healthcheck" in compose["services"][other]
            hold(checked and how["condition"] == "service_healthy", f"compose.yaml: {name}: does not wait for the health of {other}")
    for port in service.get("ports", []):
        hold(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), f"compose.yaml: {name}: port {port} is open to other machines")
    for variable, value in service.get("environment", {}).items():
        secret = SECRET.search(variable)
        hold(not secret or value.startswith("${"), f"compose.yaml: {name}: {variable} is a secret in the file")
    mounted = mounts(name, service, compose, values)
    if build:
        check_command(name, service, mounted, values)


def main():
    stages = check_dockerfile(HERE / "Dockerfile")
    values = example(HERE / ".env.example")
    compose = YAML(typ="safe").load((HERE / "compose.yaml").read_text())
    check_variables({key: value for key, value in compose.items() if not key.startswith("x-")}, values)
    for name, service in compose["services"].items():
        check_service(name, service, compose, stages, values)
    unused = compose.get("volumes", {}).keys() - {
        entry.split(":")[0] for service in compose["services"].values() for entry in service.get("volumes", [])
    }
    hold(not unused, f"compose.yaml: volumes that nothing mounts: {', '.join(sorted(unused))}")
    for catalog in ("seaweedfs", "postgres"):
        values["HEXFLOE_CATALOG"] = catalog
        service = compose["services"]["hexfloe"]
        check_command(f"hexfloe on {catalog}", service, mounts("hexfloe", service, compose, values), values)
    for line in sorted(set(wrong)):
        print(line)
    print(f"docker: {len(set(wrong))} wrong" if wrong else "docker: compose.yaml, Dockerfile and .env.example hold together")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
