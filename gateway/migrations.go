package gateway

import (
	"github.com/handrail-dev/handrail/gateway/admin"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/generation"
	"github.com/handrail-dev/handrail/gateway/governance"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/knowledge"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/signin"
	"github.com/handrail-dev/handrail/gateway/stop"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/task"
	"github.com/handrail-dev/handrail/gateway/turn"
	"github.com/handrail-dev/handrail/gateway/worker"
)

// Migrations returns the tables of every room.
func Migrations() (all []store.Migration) {
	for _, room := range [][]store.Migration{
		ledger.Migrations, outcome.Migrations, dispatch.Migrations, task.Migrations, principal.Migrations(), lane.Migrations(),
		nodes.Migrations(), consent.Migrations(), stop.Migrations(), rules.Migrations(), secret.Migrations(), push.Migrations(),
		provider.Migrations(), signin.Migrations(), bus.Migrations(), knowledge.Migrations(), turn.Migrations(), job.Migrations(),
		governance.Migrations(), events.Migrations(), admin.Migrations(), generation.Migrations(), worker.Migrations(),
		oauth.Migrations(),
	} {
		all = append(all, room...)
	}
	return all
}
