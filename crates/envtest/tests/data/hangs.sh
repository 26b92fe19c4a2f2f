#!/bin/sh
# Stands in for a component that starts, and never listens.
echo "thinking"
exec sleep 600
