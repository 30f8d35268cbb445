#!/bin/busybox sh
# Runs hexfloe with the arguments given, waits INTERVAL seconds after it has ended, and runs it again; whatever its exit code, because
# running again is what settles a failure, or shows it until somebody corrects the configuration. The exit code of the last run is in
# /tmp/last-exit-code, for a health check.
case ${INTERVAL:-} in
'' | *[!0-9]* | 0*)
  echo "timer: INTERVAL is \"${INTERVAL:-}\"; set it to the seconds between two runs" >&2
  exit 2
  ;;
esac

child=
# Killing hexfloe is safe at any moment: the next run resumes.
stop() {
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
  exit 0
}
trap stop TERM INT

while :; do
  hexfloe "$@" &
  child=$!
  wait "$child"
  code=$?
  echo "$code" >/tmp/last-exit-code
  [ "$code" = 0 ] || echo "timer: exit code $code; next run in $INTERVAL s" >&2
  /bin/busybox sleep "$INTERVAL" &
  child=$!
  wait "$child"
done
