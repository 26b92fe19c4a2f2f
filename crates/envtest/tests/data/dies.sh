#!/bin/sh
# Stands in for a component that cannot start.
echo "starting up"
echo "the disk is full" >&2
exit 3
