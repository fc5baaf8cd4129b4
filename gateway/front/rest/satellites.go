package rest

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Satellites are the processes that bring tools over the bus; gateway/bus implements it.
type Satellites interface {
	Views() []bus.View
	View(capabilities.NodeID) (bus.View, error)
	Invite(ctx context.Context, by capabilities.PrincipalID, service string, yes bool, ttl time.Duration) (bus.Invited, error)
	Decide(ctx context.Context, by capabilities.PrincipalID, id capabilities.NodeID, state, reason string) (bus.View, error)
	Keys() (bus.Keys, error)
}

func (s *Server) satelliteTable() []*endpoint {
	if s.opts.Satellites == nil {
		return nil
	}
	return []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/satellites", action: principal.ActReadProviders,
			summary: "Satellites: who is let in, who waits, and how each is by its heartbeats",
		}, s.satellites),
		serveJSON(endpoint{
			method: post, path: "/v1/satellites", action: principal.ActProviders, does: "tool.admin.satellite-invite",
			summary: "Make a one-time code for a satellite of a service; the first one starts the bus",
		}, s.inviteSatellite),
		serveJSON(endpoint{method: get, path: "/v1/satellites/{satellite}", action: principal.ActReadProviders, summary: "One satellite"},
			s.satellite),
		serveJSON(endpoint{
			method: post, path: "/v1/satellites/{satellite}/approve", action: principal.ActProviders, does: "tool.admin.satellite-approve",
			summary: "Let a satellite in; its tools are approved apart, as its provider's",
		}, s.decideSatellite(route.StateApproved)),
		serveJSON(endpoint{
			method: post, path: "/v1/satellites/{satellite}/deny", action: principal.ActProviders, does: "tool.admin.satellite-deny",
			summary: "Turn away a satellite that waits",
		}, s.decideSatellite(route.StateDenied)),
		serveJSON(endpoint{
			method: post, path: "/v1/satellites/{satellite}/revoke", action: principal.ActProviders, does: "tool.admin.satellite-revoke",
			summary: "Put a satellite out: its connection ends at once and it stays out",
		}, s.decideSatellite(route.StateRevoked)),
		serveJSON(endpoint{
			method: get, path: "/v1/bus", action: principal.ActProviders, summary: "Public keys that a NATS server elsewhere has to know",
		}, s.busKeys),
	}
}

func (s *Server) satellites(*visit, none) (api.SatelliteList, error) {
	list := api.SatelliteList{Satellites: []api.Satellite{}}
	for _, v := range s.opts.Satellites.Views() {
		list.Satellites = append(list.Satellites, viewSatellite(&v))
	}
	return list, nil
}

func (s *Server) satellite(c *visit, _ none) (api.Satellite, error) {
	v, err := s.opts.Satellites.View(capabilities.NodeID(c.r.PathValue("satellite")))
	if err != nil {
		return api.Satellite{}, err
	}
	return viewSatellite(&v), nil
}

func (s *Server) inviteSatellite(c *visit, in api.InviteSatellite) (api.InvitedSatellite, error) {
	if in.TTLS < 0 || in.TTLS > 1<<30 {
		return api.InvitedSatellite{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "ttl_s: 1 second to 30 days")
	}
	i, err := s.opts.Satellites.Invite(c.r.Context(), c.who.Principal, in.Service, in.AutoApprove, time.Duration(in.TTLS)*time.Second)
	return api.InvitedSatellite{Paste: i.Paste, Service: i.Service, Expires: i.Expires}, err
}

func (s *Server) decideSatellite(state string) func(*visit, api.Reason) (api.Satellite, error) {
	return func(c *visit, in api.Reason) (api.Satellite, error) {
		v, err := s.opts.Satellites.Decide(c.r.Context(), c.who.Principal, capabilities.NodeID(c.r.PathValue("satellite")), state, in.Reason)
		if err != nil {
			return api.Satellite{}, err
		}
		return viewSatellite(&v), nil
	}
}

func (s *Server) busKeys(*visit, none) (api.BusKeys, error) {
	k, err := s.opts.Satellites.Keys()
	return api.BusKeys{Gateway: k.Gateway, Issuer: k.Issuer, System: k.System}, err
}

// hosts are nodes and satellites.
func (s *Server) hosts() []route.Node {
	if s.opts.Hosts != nil {
		return s.opts.Hosts()
	}
	return s.opts.Roster.Snapshot()
}

func viewSatellite(v *bus.View) api.Satellite {
	out := api.Satellite{
		ID: v.ID, Service: v.Service, State: v.State, Host: v.Profile.Host, Platform: v.Profile.Platform, Agent: v.Profile.Agent, Key: v.Key,
		JoinedAt: v.JoinedAt, DecidedBy: v.DecidedBy, Reason: v.Reason, Active: v.Active, Load: v.Load, UptimeS: v.UptimeS,
		ManifestHash: v.Manifest, Problem: v.Problem, RefusedHeartbeats: v.Refused, BreakerOpen: v.Breaker,
	}
	if v.State == route.StateApproved {
		out.Health, out.Why = string(v.Health), v.Why
	}
	for to, from := range map[**time.Time]time.Time{&out.DecidedAt: v.DecidedAt, &out.SeenAt: v.Seen} {
		if !from.IsZero() {
			*to = &from
		}
	}
	return out
}
