package front

import (
	"context"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// As returns a context with the identity of a visitor who was admitted by another way than HTTP,
// such as by the key of a connection to the bus. Handlers find it by From.
func As(ctx context.Context, who principal.Identity) context.Context {
	return context.WithValue(ctx, admissionKey{}, &admission{who: who})
}
