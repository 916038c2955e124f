module trainstack/trainer-v2.1

go 1.26.0

require github.com/kubeflow/trainer/v2 v2.1.0
