module talos-operator/tools/real-talos/kit

go 1.26.0
