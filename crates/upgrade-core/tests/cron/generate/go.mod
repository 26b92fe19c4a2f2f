module talos-operator/crates/upgrade-core/tests/cron/generate

go 1.26.6

require github.com/robfig/cron/v3 v3.0.1
