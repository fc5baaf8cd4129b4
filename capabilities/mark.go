package capabilities

// Mark is a place on a live picture where a call acts, in parts of the picture: 0, 0 is
// its upper left corner, 1, 1 its lower right one. A point has no width and no height.
type Mark struct {
	Call   CallID  `json:"call_id"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}
