package gateway

func (g *Gateway) mountREST() error { return nil }
