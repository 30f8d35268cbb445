"""Runs one server for the tests, and never outlives who asked for it.

    serve.py seaweedfs    S3 and an Iceberg REST catalog
    serve.py postgres     PostgreSQL

Once the server answers, prints one JSON object in one line: its ports, and the names and keys made up for this run. Or
`{"error": ...}`, and ends. Then takes commands from standard input, a line each, and answers each with a line:

    kill               SIGKILL to the server
    start              starts it again: same ports, same data
    bucket NAME        makes a plain bucket
    table-bucket NAME  makes a bucket of Iceberg tables, which is a warehouse of the REST catalog
    database NAME      makes a database
    stop               ends the server and this

At the end of its input it kills the server and removes all that the server kept.
"""

import ctypes
import glob
import json
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

PATIENCE = 60  # seconds until a server must answer: a machine that builds at the same time is slow
REGION = "us-east-1"


class Missing(Exception):
    """A server that is not installed; says what installs it."""


class Ended(Exception):
    """A server that ended while it was waited for."""


def free_ports(n, above):
    """Ports that nobody listens on, and whose `above` counterparts are free as well."""
    while True:
        ports = random.sample(range(10240, 20000), n)
        if all(_free(port) and (not above or _free(port + above)) for port in ports):
            return ports


def _free(port):
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _prctl(option, value):
    """What only Linux can do, and what is only for tidiness."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def _die_with_parent():
    """A guard that is killed takes its server along."""
    _prctl(1, signal.SIGKILL)


def _adopt_orphans():
    """The children of a server that was killed become ours to wait for."""
    _prctl(36, 1)


class Server:
    """A process in a group of its own, with a folder for its data and its log."""

    process = None
    run_as = {}

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="hexfloe-serve-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.log = os.path.join(self.folder, "log")

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
                **self.run_as,
            )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.probe()
            except Exception as error:
                if self.process.poll() is not None:
                    raise Ended(f"{self.command()[0]} ended by itself: {self._tail()}") from error
                if time.monotonic() > end:
                    raise TimeoutError(f"{self.command()[0]}: {error!r} after {PATIENCE} s: {self._tail()}") from error
            time.sleep(0.1)

    def kill(self):
        if self.process is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # PostgreSQL's children are in groups of their own, and end when they notice; until then another start is refused.
        for _ in range(1000):
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.01)
            except ChildProcessError:
                return

    def remove(self):
        self.kill()
        # What the server started may need a moment to notice.
        for _ in range(50):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                return
            time.sleep(0.1)

    def _tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-15:])


class SeaweedFs(Server):
    """`weed server`: S3 with two identities, and the REST catalog over its table buckets."""

    def __init__(self):
        self.made = set()
        self.weed = os.path.join(sys.prefix, "bin", "weed")
        if not os.path.exists(self.weed):
            raise Missing("SeaweedFS is not in the tests' Python environment: tests/run makes it")
        super().__init__()
        # Each port has a gRPC port 10000 above it.
        self.master, self.volume, self.filer, self.s3, self.rest = free_ports(5, 10000)
        self.keys = [{"id": "HX" + secrets.token_hex(9).upper(), "secret": secrets.token_hex(20)} for _ in range(2)]
        identities = [
            {
                "name": f"tests-{number}",
                "credentials": [{"accessKey": key["id"], "secretKey": key["secret"]}],
                "actions": ["Admin", "Read", "List", "Tagging", "Write"],
            }
            for number, key in enumerate(self.keys)
        ]
        with open(os.path.join(self.folder, "identities.json"), "w", encoding="utf-8") as file:
            json.dump({"identities": identities}, file)
        # Each bucket has volumes of its own, seven at once unless said, and of those there are only as many as the disk would hold.
        with open(os.path.join(self.folder, "master.toml"), "w", encoding="utf-8") as file:
            file.write("[master.volume_growth]\ncopy_1 = 1\n")
        os.mkdir(os.path.join(self.folder, "data"))

    def remove(self):
        super().remove()
        # It listens on local sockets as well, wherever it is told to keep things.
        for port in (self.master, self.volume, self.filer, self.s3, self.rest):
            for socket_file in glob.glob(f"/tmp/seaweedfs-*-{port + 10000}.sock"):
                os.remove(socket_file)

    def command(self):
        # No maintenance worker, and no bucket that a misspelt name makes.
        return [
            self.weed,
            "-logtostderr=true",
            "server",
            "-dir=data",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-master.port={self.master}",
            "-master.telemetry=false",
            # Started again after a kill, a master alone waits for an election to time out.
            "-master.electionTimeout=1s",
            "-master.heartbeatInterval=100ms",
            "-master.volumeSizeLimitMB=1024",
            f"-volume.port={self.volume}",
            "-volume.max=10000",
            "-filer",
            f"-filer.port={self.filer}",
            f"-filer.localSocket={self.folder}/filer.sock",
            "-s3",
            f"-s3.port={self.s3}",
            f"-s3.port.iceberg={self.rest}",
            "-s3.port.lance=0",
            "-s3.config=identities.json",
            "-s3.autoCreateBucket=false",
            f"-s3.localSocket={self.folder}/s3.sock",
        ]

    def environment(self):
        # Nothing of whoever runs the tests: an access key in the environment would be one more identity.
        return {"PATH": os.environ.get("PATH", ""), "HOME": self.folder, "TMPDIR": self.folder}

    def client(self, service):
        import boto3
        from botocore.config import Config

        return boto3.client(
            service,
            endpoint_url=f"http://127.0.0.1:{self.s3}",
            aws_access_key_id=self.keys[0]["id"],
            aws_secret_access_key=self.keys[0]["secret"],
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, proxies={}),
        )

    def probe(self):
        """Writes an object and lists namespaces: the ports answer long before either works."""
        s3 = self.client("s3")
        # The catalog needs one bucket to be asked about.
        for make, name in ((self.bucket, "plain"), (self.table_bucket, "warehouse")):
            if name not in self.made:
                make(name)
                self.made.add(name)
        s3.put_object(Bucket="plain", Key="ready", Body=b"ready")
        if s3.get_object(Bucket="plain", Key="ready")["Body"].read() != b"ready":
            raise ValueError("an object reads differently from what was written")
        base = f"http://127.0.0.1:{self.rest}/v1"
        form = {
            "grant_type": "client_credentials",
            "client_id": self.keys[0]["id"],
            "client_secret": self.keys[0]["secret"],
            "scope": "catalog",
        }
        # No proxy of the environment stands between here and here.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{base}/oauth/tokens", urllib.parse.urlencode(form).encode(), timeout=5) as answer:
            token = json.load(answer)["access_token"]
        asked = urllib.request.Request(f"{base}/warehouse/namespaces", headers={"Authorization": f"Bearer {token}"})
        with opener.open(asked, timeout=5) as answer:
            json.load(answer)

    def bucket(self, name):
        _once(lambda: self.client("s3").create_bucket(Bucket=name))

    def table_bucket(self, name):
        _once(lambda: self.client("s3tables").create_table_bucket(name=name))

    def facts(self):
        return {"s3": self.s3, "rest": self.rest, "region": REGION, "keys": self.keys}


def _once(make):
    """Makes a bucket that an attempt before this one, which failed to say so, may have made."""
    from botocore.exceptions import ClientError

    try:
        make()
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("BucketAlreadyExists", "BucketAlreadyOwnedByYou"):
            raise


class Postgres(Server):
    """`postgres` with a cluster of its own. As root it runs as the user `postgres`, because it refuses to run as root."""

    def __init__(self):
        self.initdb, self.postgres = _postgres_binary("initdb"), _postgres_binary("postgres")
        if os.geteuid() == 0:
            try:
                owner = pwd.getpwnam("postgres")
            except KeyError:
                raise Missing("there is no user postgres to run PostgreSQL as: apt-get install postgresql") from None
            self.run_as = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        super().__init__()
        [self.port] = free_ports(1, 0)
        self.user, self.password = "tests", secrets.token_hex(16)
        password = os.path.join(self.folder, "password")
        with open(password, "w", encoding="utf-8") as file:
            file.write(self.password)
        data = os.path.join(self.folder, "data")
        os.mkdir(data, 0o700)
        if self.run_as:
            for path in (password, data):
                os.chown(path, self.run_as["user"], self.run_as["group"])
        made = subprocess.run(
            [
                self.initdb,
                "--pgdata=data",
                f"--username={self.user}",
                "--pwfile=password",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ],
            env=self.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **self.run_as,
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")

    def command(self):
        return [
            self.postgres,
            "-D",
            "data",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-k",
            "",
            "-c",
            "fsync=off",
            "-c",
            "max_connections=200",
        ]

    def environment(self):
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}

    def connection(self):
        import psycopg2

        return psycopg2.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            password=self.password,
            dbname="postgres",
            connect_timeout=5,
        )

    def probe(self):
        self._run("SELECT 1")

    def database(self, name):
        self._run(f'CREATE DATABASE "{name}"')

    def _run(self, statement):
        connection = self.connection()
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
        finally:
            connection.close()

    def facts(self):
        return {"port": self.port, "user": self.user, "password": self.password}


def _postgres_binary(name):
    found = shutil.which(name)
    if found:
        return found

    # The newest version that is there.
    def version(path):
        part = path.split("/")[-3]
        return int(part) if part.isdecimal() else 0

    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=version)
    if not found:
        raise Missing("PostgreSQL is not installed: apt-get install postgresql")
    return found[-1]


def _started(kind):
    """A server that answers. Somebody may take a port between choosing it and listening on it."""
    for chance in range(4):
        server = kind()
        try:
            server.start()
            return server
        except Ended:
            server.remove()
            if chance == 3:
                raise
        except BaseException:
            server.remove()
            raise


def _say(answer):
    print(json.dumps(answer), flush=True)


def _obey(server, command, *arguments):
    commands = {"kill": server.kill, "start": server.start}
    for name in ("bucket", "table_bucket", "database"):
        if hasattr(server, name):
            commands[name.replace("_", "-")] = getattr(server, name)
    commands[command](*arguments)


def main():
    kinds = {"seaweedfs": SeaweedFs, "postgres": Postgres}
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    _adopt_orphans()
    # Ctrl-C reaches the whole group of processes: the tests end then, and with them our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        server = _started(kinds[sys.argv[1]])
    except Missing as error:
        _say({"error": str(error)})
        sys.exit(1)
    except Exception as error:
        _say({"error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    try:
        _say(server.facts())
        for line in sys.stdin:
            words = line.split()
            if words == ["stop"]:
                break
            try:
                _obey(server, *words)
                _say({"done": line.strip()})
            except Exception as error:
                _say({"error": f"{line.strip()}: {type(error).__name__}: {error}"})
    except BrokenPipeError:
        pass  # nobody listens any more
    finally:
        server.remove()


if __name__ == "__main__":
    main()
