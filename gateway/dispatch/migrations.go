package dispatch

import (
	"slices"

	"github.com/handrail-dev/handrail/gateway/dispatch/internal/taint"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of open calls and of what lanes and principals have read. They
// were made under one name, so they stay one row of versions.
var Migrations = slices.SortedFunc(slices.Values(append([]store.Migration{
	{Room: "dispatch", Version: 2, SQL: taint.LaneMigration}, {Room: "dispatch", Version: 5, SQL: taint.ReaderMigration},
}, opencalls.Migrations...)), func(a, b store.Migration) int { return a.Version - b.Version })
