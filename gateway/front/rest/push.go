package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/push"
)

// Push is the browsers that are told what waits; gateway/push implements it.
type Push interface {
	Key() string
	List(who capabilities.PrincipalID) []push.Subscription
	Subscribe(context.Context, principal.Identity, push.Wish) (push.Subscription, error)
	Unsubscribe(ctx context.Context, by principal.Identity, id string) error
}

// pushTable is who has their browser told.
func (s *Server) pushTable() []*endpoint {
	return []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/account/push", action: principal.ActSession,
			summary: "One's own browsers that are told what waits (Web Push), and the key that a browser subscribes with",
		}, s.pushes),
		serveJSON(endpoint{
			method: post, path: "/v1/account/push", action: principal.ActSession,
			summary: "Have a browser told; its push service gets a first message at once",
		}, s.subscribe),
		serveJSON(endpoint{
			method: remove, path: "/v1/account/push/{subscription}", action: principal.ActSession,
			summary: "End the notices to a browser of one's own",
		}, s.unsubscribe),
	}
}

func (s *Server) pushes(c *visit, _ none) (api.Push, error) {
	v := api.Push{Key: s.opts.Push.Key(), Subscriptions: []api.Subscription{}}
	for _, one := range s.opts.Push.List(c.who.Principal) {
		v.Subscriptions = append(v.Subscriptions, front.ViewSubscription(&one))
	}
	return v, nil
}

func (s *Server) subscribe(c *visit, in api.Subscribe) (api.Subscription, error) {
	made, err := s.opts.Push.Subscribe(c.r.Context(), c.who,
		push.Wish{Name: in.Name, Endpoint: in.Endpoint, P256dh: in.Keys.P256dh, Auth: in.Keys.Auth})
	return front.ViewSubscription(&made), err
}

func (s *Server) unsubscribe(c *visit, _ none) (api.Unsubscribed, error) {
	id := c.r.PathValue("subscription")
	return api.Unsubscribed{Subscription: id}, s.opts.Push.Unsubscribe(c.r.Context(), c.who, id)
}

// untold is what there is where no browser can be told.
type untold struct{}

func (untold) Key() string                                       { return "" }
func (untold) List(capabilities.PrincipalID) []push.Subscription { return []push.Subscription{} }
func (untold) Subscribe(context.Context, principal.Identity, push.Wish) (push.Subscription, error) {
	return push.Subscription{}, capabilities.Errorf(capabilities.CodeNotFound, "this gateway tells no browsers")
}
func (untold) Unsubscribe(context.Context, principal.Identity, string) error {
	return capabilities.Errorf(capabilities.CodeNotFound, "you have no such subscription")
}
