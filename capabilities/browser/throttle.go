package browser

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// throttleKey is the capability key of making a page's processor or network slower.
const throttleKey = "network.browser.throttle"

// speeds are networks as Chrome's own tools have them: what a person on the road measures.
var speeds = map[string]network.Conditions{
	"full":    {DownloadThroughput: -1, UploadThroughput: -1},
	"fast-4g": {Latency: 165, DownloadThroughput: 1_012_500, UploadThroughput: 168_750},
	"slow-4g": {Latency: 562.5, DownloadThroughput: 180_000, UploadThroughput: 84_375},
	"3g":      {Latency: 2000, DownloadThroughput: 50_000, UploadThroughput: 50_000},
}

var errNoThrottle = capabilities.Errorf(capabilities.CodeDeniedByPolicy, "Policy withholds %s from this call.", throttleKey).
	WithHint("Leave cpu_slowdown and network_speed out, or ask whoever writes the policy.")

// mayThrottle refuses a call that is to slow something down and was not granted that.
func (c *call) mayThrottle(asked bool) error {
	if asked && !slices.Contains(c.inv.Grants, throttleKey) {
		return errNoThrottle
	}
	return nil
}

// slowed reports whether anything is slower than it is by itself.
func (e emulated) slowed() bool { return e.Slowdown > 1 || e.Speed != "" && e.Speed != "full" }

// slowNetwork queues how fast the network is, or that there is none.
func (e emulated) slowNetwork(ctx context.Context, s *devtools.Session) []*devtools.Pending {
	if e.Offline == nil && e.Speed == "" {
		return nil
	}
	now := speeds["full"]
	if e.Speed != "" {
		now = speeds[e.Speed]
	}
	now.Offline = e.isOffline()
	if now.Offline {
		now.DownloadThroughput, now.UploadThroughput = -1, -1
	}
	rules := network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{}}
	if now.Offline {
		rules.EmulateOfflineServiceWorker = ptr(true)
	}
	if now.Offline || now.Latency > 0 {
		rules.MatchedNetworkConditions = append(rules.MatchedNetworkConditions, &now)
	}
	return []*devtools.Pending{
		devtools.Start(ctx, s, network.OverrideNetworkState, network.OverrideNetworkStateParams{
			Offline: now.Offline, Latency: now.Latency, DownloadThroughput: now.DownloadThroughput, UploadThroughput: now.UploadThroughput,
		}).Pending,
		devtools.Start(ctx, s, network.EmulateNetworkConditionsByRule, rules).Pending,
	}
}

// slowProcessor queues how many times slower scripts run. It is of a process: see processWide.
func (e emulated) slowProcessor(ctx context.Context, s *devtools.Session) []*devtools.Pending {
	if e.Slowdown == 0 {
		return nil
	}
	return []*devtools.Pending{
		devtools.Start(ctx, s, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: e.Slowdown}).Pending,
	}
}
