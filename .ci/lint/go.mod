module github.com/handrail-dev/handrail/ci/lint

go 1.26.0

require (
	github.com/Antonboom/errname v1.1.2
	github.com/sivchari/containedctx v1.0.3
	honnef.co/go/tools v0.8.2
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/golangci/misspell v0.8.0 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)

tool github.com/golangci/misspell/cmd/misspell
