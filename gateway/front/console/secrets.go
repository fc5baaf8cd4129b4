package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// secrets shows who may have which secret delivered. There is no way here to read a
// value or to type one.
func (c *Console) secrets(v *visit) { v.showSecrets(nil) }

func (v *visit) showSecrets(problem error) {
	var list api.SecretList
	if err := v.get(v1("secrets"), &list); err != nil {
		v.show(page{name: "problem", title: "Secrets", here: "/console/secrets", fault: err})
		return
	}
	shown := secretsPage{visit: v}
	for _, s := range list.Secrets {
		shown.Secrets = append(shown.Secrets, secret{v, s})
	}
	v.show(page{name: "secrets", title: "Secrets", here: "/console/secrets", live: "packet", fault: problem, data: shown})
}

type secretsPage struct {
	*visit
	Secrets []secret
}

type secret struct {
	*visit
	api.Secret
}

// Where says where the value is.
func (s secret) Where() string {
	where := map[string]string{
		"stored": "sealed in the gateway's store", "env": "in the gateway's environment", "file": "in a file of the gateway's machine",
		"exec": "in another program",
	}[s.Source]
	return orElse(where, s.Source)
}

func (c *Console) changeSecret(v *visit) {
	f, what := v.r.PostForm, v.r.PathValue("secret")
	var err error
	switch f.Get("do") {
	case "allow":
		err = v.ask(http.MethodPost, v1("secrets", what, "references"),
			api.AllowSecret{
				Principal: capabilities.PrincipalID(f.Get("principal")), Alias: f.Get("alias"), Display: f.Get("display"),
			}, nil)
	case "remove":
		err = v.ask(http.MethodDelete, v1("secrets", what), nil, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showSecrets(err)
		return
	}
	v.seeOther("/console/secrets", "changed")
}
