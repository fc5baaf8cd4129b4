package board

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

// Gateway is what the board asks of one; gateway/client implements it.
type Gateway interface {
	Address() string
	Approvals(context.Context) ([]api.Approval, error)
	Calls(ctx context.Context, limit int) ([]api.Call, error)
	Stopped(context.Context) (api.Stop, error)
	Events(ctx context.Context, after uint64, began func() error, fn func(client.Event) error) error
	Answer(ctx context.Context, id string, a client.Answer) (api.Approval, error)
	AnswerTogether(ctx context.Context, ids []string, a client.Answer) ([]api.Approval, error)
	Stop(ctx context.Context, reason string) (api.Halted, error)
	Resume(ctx context.Context, reason string) (api.Halted, error)
}

// Words are what the program's other commands say, too.
type Words struct {
	Told    func(*api.Told) []string               // what a call would do, in lines
	Form    func(*api.Form) []string               // what a provider asks, in lines
	Waits   func(now int, mayReturn bool) string   // whether anybody is there for the answer
	Lending func(hands bool, device string) string // what an answer that lasts takes from the device
	Ago     func(now, t time.Time) string
	Clock   string // layout of a time of day
	Family  func(tool string) string
	Count   func(n int, what string) string
}

// Run shows the board in a terminal until the person leaves, the terminal ends or ctx does.
// Its error is the gateway's where the first look fails; nothing was shown then.
func Run(ctx context.Context, g Gateway, w Words, in, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := lookAround(ctx, g)
	if first.err != nil {
		return first.err
	}
	m := &model{
		ctx: ctx, gateway: g, board: board{address: g.Address(), words: w}, now: time.Now(), width: 80, height: 24, look: make(chan struct{}, 1),
	}
	m.board.news(first.approvals, first.calls, first.stop)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	go followEvents(ctx, g, m.look, func(n news) { p.Send(n) })
	if _, err := p.Run(); err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return err
	}
	return nil
}

// model is the board as bubbletea runs it: Update takes keys, sizes and news, View draws.
type model struct {
	//lint:ignore containedctx the life of the board
	ctx     context.Context
	gateway Gateway
	board   board
	look    chan struct{} // one token: look around soon

	now           time.Time
	width, height int
}

type (
	notice string    // how a deed went
	tick   time.Time // ages change
)

func (m *model) Init() tea.Cmd { return second() }

func second() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tick(t) })
}

// Update takes what happened.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.now = time.Now()
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		return m, second()
	case news:
		if msg.err != nil {
			m.board.lost = publicText(msg.err) + "; trying again"
			return m, nil
		}
		m.board.news(msg.approvals, msg.calls, msg.stop)
	case notice:
		m.board.notice = string(msg)
		select {
		case m.look <- struct{}{}:
		default:
		}
	case tea.KeyPressMsg:
		d := m.board.key(msg.String())
		switch {
		case d == nil:
		case d.what == "quit":
			return m, tea.Quit
		default:
			return m, func() tea.Msg { return notice(d.do(m.ctx, m.gateway, m.board.words)) }
		}
	}
	return m, nil
}

// View is the frame of what is known, on a screen of its own, so that what was there comes
// back.
func (m *model) View() tea.View {
	lines := m.board.frame(m.now, m.width, m.height)
	for i, line := range lines {
		// The selected line is shown inverse as well; its mark says it, too.
		if strings.HasPrefix(line, ">") {
			lines[i] = "\x1b[7m" + line + "\x1b[0m"
		}
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}
