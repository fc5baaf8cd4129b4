package libraries

import (
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// lists: what is sorted, moved and dropped.
func lists() []*library {
	const order = `[...a.children].map(x=>x.id).join()`
	return []*library{
		lib("sortablejs", "sortablejs",
			does("native", "drags the first entry onto the third", "it is sorted behind", draggedOn("#Apple", "#Plum"),
				is(order+`.indexOf('Apple') > 0`, true)),
			does("fallback", "drags the first entry onto the third, in the mode without HTML's own drag", "it is sorted behind",
				draggedOn("#Ant", "#Cat"),
				is(`[...f.children].map(x=>x.id).indexOf('Ant') > 0`, true)),
			does("groups", "drags an entry to another list", "it is there", draggedOn("#One", "#Three"),
				is(`One.parentElement.id`, "g2")),
		),
		lib("dragula", "dragula",
			does("groups", "drags an entry to another list", "it is there and the page was told", draggedOn("#one", "#three"),
				is(`one.parentElement.id`, "g2"),
				is(`log.join()`, "one")),
		),
		lib("interact", "interactjs",
			does("drop", "drags the parcel onto the basket", "the basket took it", draggedOn("#d", "#t"), is(`log.join()`, "dropped")),
			does("path", "drags the parcel along a path", "it follows",
				browser.Do("drag",
					suite.With("path", []any{suite.With("x", 30, "y", 30), suite.With("x", 80, "y", 60), suite.With("x", 130, "y", 90)})),
				is(`Math.abs(new DOMMatrix(getComputedStyle(d).transform).e - 100) < 3`, true)),
		),
		lib("gridstack", "gridstack",
			does("move", "drags a tile onto another's place", "the grid has it elsewhere",
				draggedOn("[gs-id=a] .grid-stack-item-content", "[gs-id=b] .grid-stack-item-content"),
				is(`(n => n.x + ',' + n.y)(grid.engine.nodes.find(n=>n.id=='a')) != '0,0'`, true)),
		),
	}
}
