module github.com/kausality-io/function-kausality/test/parts/argocd

go 1.26.0

require github.com/argoproj/argo-cd/v3 v3.3.18
