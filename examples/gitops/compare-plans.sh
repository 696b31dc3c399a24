#!/bin/sh
# Print the difference between the plans of two folders as Markdown, for a comment on a pull request.
#
# usage: compare-plans.sh BASE HEAD [OPTION...]   options of `modelplane plan`, such as --fleet fleet/
#
# BASE may be absent: everything in HEAD is then new. The exit status is that of `modelplane plan`: 0, 2 if
# a replica has no place, 1 if a file is invalid.
set -u

base=$1
head=$2
shift 2

if [ -d "$base" ]; then
  set -- "$head" --compare "$base" "$@"
else
  set -- "$head" "$@"
fi
status=0
plan=$(modelplane plan "$@" 2>&1) || status=$?

echo "<!-- modelplane plan -->"
case $status in
  0) echo "### Plan" ;;
  2) echo "### Plan: not every replica has a place" ;;
  *) echo "### Plan: the manifests are invalid" ;;
esac
echo
# Names and messages in the plan come from the manifests. Indented, they are text in Markdown.
printf '%s\n' "$plan" | sed 's/^/    /'
exit "$status"
