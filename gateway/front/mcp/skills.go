package mcp

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/skill"
)

// Skills are prompts and resources (SEP-2640: skill://NAME/FILE, skills/list and skills/get).
// They are shown where the caller may load them, and each text comes by a call of the tool that
// loads skills: decided and recorded like any other (S3-15, S3-17, S3-18).

const (
	skillURI       = "skill://"
	skillExtension = "io.modelcontextprotocol/skills"
	markdown       = "text/markdown"
	invalidParams  = -32602
)

// skillEntry is a skill in a list, as SEP-2640 has it.
type skillEntry struct {
	URI       string          `json:"uri"`
	Front     json.RawMessage `json:"frontmatter"`
	Resources []skillFile     `json:"resources"`
}

type skillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
}

type skillListParams struct {
	sdk.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type skillList struct {
	sdk.ResultBase
	TTLMs      int          `json:"ttlMs"`
	CacheScope string       `json:"cacheScope"`
	Skills     []skillEntry `json:"skills"`
}

type skillGetParams struct {
	sdk.ParamsBase
	URI string `json:"uri"`
}

type skillGot struct {
	sdk.ResultBase
	Skill skillEntry `json:"skill"`
}

func entryOf(s *skill.Skill) skillEntry {
	e := skillEntry{URI: skillURI + s.Name + "/" + skill.Main, Front: s.Front}
	for i := range s.Files {
		e.Resources = append(e.Resources, skillFile{skillURI + s.Name + "/" + s.Files[i].Path, s.Files[i].Digest()})
	}
	return e
}

// offerSkills adds the two methods; what they list is asked for at each request.
func (v *view) offerSkills() {
	err := sdk.AddReceivingCustomMethod(v.server,
		"skills/list", func(context.Context, *sdk.ServerSession, *skillListParams) (*skillList, error) {
			out := &skillList{CacheScope: "private", Skills: []skillEntry{}}
			if v.loads() {
				v.s.opts.Skills.Look()
				all, _ := v.s.opts.Skills.List()
				for _, s := range all {
					out.Skills = append(out.Skills, entryOf(s))
				}
			}
			return out, nil
		})
	if err == nil {
		err = sdk.AddReceivingCustomMethod(v.server,
			"skills/get", func(_ context.Context, _ *sdk.ServerSession, p *skillGetParams) (*skillGot, error) {
				name, file, ok := skillOf(p)
				v.s.opts.Skills.Look()
				if s, there := v.s.opts.Skills.Get(name); ok && there && file == skill.Main && v.loads() {
					return &skillGot{Skill: entryOf(s)}, nil
				}
				return nil, &jsonrpc.Error{Code: invalidParams, Message: "there is no such skill"}
			})
	}
	if err != nil {
		v.s.opts.Log.Error("mcp.skills", "err", err)
	}
}

func skillOf(p *skillGetParams) (name, file string, ok bool) {
	if p == nil {
		return "", "", false
	}
	return splitSkill(p.URI)
}

// splitSkill reads skill://NAME/FILE.
func splitSkill(uri string) (name, file string, ok bool) {
	rest, ok := strings.CutPrefix(uri, skillURI)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// loads reports whether the caller may load skills now.
func (v *view) loads() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.skilled
}

// lookAtSkills lists anew if the folder of skills changed: whoever asks after a change sees it.
func (v *view) lookAtSkills() {
	if v.s.opts.Skills == nil {
		return
	}
	v.s.opts.Skills.Look()
	if v.behind() {
		v.refresh()
	}
}

// behind reports whether the skills changed since they were shown.
func (v *view) behind() bool {
	if v.ctx.Err() != nil {
		return false
	}
	_, version := v.s.opts.Skills.List()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shelf != version
}

// showSkills makes prompts and resources of the skills, or takes them away; those that stayed are
// not touched. It needs v.listing.
func (v *view) showSkills(may bool) {
	all, version := v.s.opts.Skills.List()
	if !may {
		all = nil
	}
	v.mu.Lock()
	was := v.skilled
	v.skilled, v.shelf = may, version
	v.mu.Unlock()
	want := make(map[string]*skill.Skill, len(all))
	for _, s := range all {
		want[s.Name] = s
	}
	var names, uris []string
	for name := range v.shown {
		if want[name] == nil {
			names, uris = append(names, name), append(uris, skillURI+name+"/"+skill.Main)
		}
	}
	if len(names) > 0 {
		v.server.RemovePrompts(names...)
		v.server.RemoveResources(uris...)
	}
	for _, s := range all {
		if v.shown[s.Name] == s {
			continue
		}
		v.server.AddPrompt(&sdk.Prompt{
			Name: s.Name, Description: s.Description,
		}, func(ctx context.Context, _ *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			text, err := v.loadSkill(ctx, s.Name, "")
			if err != nil {
				return nil, err
			}
			return &sdk.GetPromptResult{
				Description: s.Description, Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}},
			}, nil
		})
		v.server.AddResource(&sdk.Resource{
			Name: s.Name, Description: s.Description, URI: skillURI + s.Name + "/" + skill.Main, MIMEType: markdown,
		}, v.readSkill)
	}
	v.shown = want
	switch {
	case may && !was:
		v.server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "skill", Title: "File of a skill", URITemplate: skillURI + "{name}/{+path}"},
			v.readSkill)
	case was && !may:
		v.server.RemoveResourceTemplates(skillURI + "{name}/{+path}")
	}
}

func (v *view) readSkill(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	name, file, ok := splitSkill(req.Params.URI)
	if !ok || file == "" {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	text, err := v.loadSkill(ctx, name, file)
	if capabilities.CodeOf(err) == capabilities.CodeNotFound || capabilities.CodeOf(err) == capabilities.CodeInvalidArguments {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	if err != nil {
		return nil, err
	}
	mime := "text/plain"
	if strings.HasSuffix(file, ".md") {
		mime = markdown
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: mime, Text: text}}}, nil
}

// loadSkill makes the call that loads a skill: file "" for the instructions alone.
func (v *view) loadSkill(ctx context.Context, name, file string) (string, error) {
	life := v.lifeOf(ctx, nil, false)
	defer life.end()
	asked := map[string]string{"name": name}
	if file != "" {
		asked["file"] = file
	}
	args, err := json.Marshal(asked)
	if err != nil {
		return "", capabilities.AsError(err)
	}
	r := v.s.opts.Dispatcher.Call(life.ctx, dispatch.Request{
		Caller: v.caller, Tool: skill.Tool, Args: args, Surface: "mcp", Token: v.who.TokenID,
	})
	if r.Status != capabilities.StatusOK {
		return "", &capabilities.Error{Code: r.Code, Message: r.Message, Hint: r.Hint, Action: r.Action}
	}
	var loaded api.Skill
	if err := json.Unmarshal(r.Output, &loaded); err != nil {
		return "", capabilities.AsError(err)
	}
	return loaded.Text, nil
}
