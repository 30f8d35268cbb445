"""Terminates TLS before a plain server on 127.0.0.1.

    tls.py HOST:PORT

Prints one JSON object: the port it listens on, and a PEM file of the authority that its certificate is of. Ends with its input.
"""

import json
import os
import socket
import ssl
import sys
import tempfile
import threading

import trustme


def pump(source, sink):
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
    except OSError:
        pass
    finally:
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def serve(context, client, address):
    try:
        client = context.wrap_socket(client, server_side=True)
        server = socket.create_connection(address)
    except OSError:
        client.close()
        return
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)


def accept(context, listener, address):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(context, client, address), daemon=True).start()


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        file = os.path.join(folder, "authority.pem")
        authority.cert_pem.write_to_path(file)
        threading.Thread(target=accept, args=(context, listener, (host, int(port))), daemon=True).start()
        print(json.dumps({"port": listener.getsockname()[1], "authority": file}), flush=True)
        sys.stdin.read()


main()
