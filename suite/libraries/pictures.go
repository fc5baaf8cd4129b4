package libraries

import (
	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
)

// pictures: maps and charts, which are worked by places.
func pictures() []*library {
	at := func(x, y int) step { return browser.Do("click", suite.With("x", x, "y", y)) }
	return []*library{
		lib("leaflet", "leaflet",
			does("zoom", "presses the button to zoom in", "the map is nearer", click(`button "Zoom in"`), is(`map.getZoom()`, 6)),
			does("wheel", "turns the wheel over the map", "the map is nearer",
				browser.Do("hover", suite.With("selector", "#m", "wheel_y", -240)), is(`map.getZoom() > 5`, true)),
			does("drag", "drags the map along a path", "its centre moves",
				browser.Do("drag",
					suite.With("path",
						[]any{suite.With("x", 350, "y", 200), suite.With("x", 300, "y", 200), suite.With("x", 200, "y", 200)})),
				is(`map.getCenter().lng > 13`, true)),
			does("marker", "clicks the marker by its name", "its popup is in the outline", click(`button "Munich"`),
				is(`mk.isPopupOpen()`, true), shows("Hello Munich")),
			does("keys", "focuses the map and presses the arrow", "its centre moves", clickOn("#m"), key("ArrowRight"),
				is(`map.getCenter().lng > 11.5`, true)),
		),
		lib("maplibre", "maplibre-gl",
			does("zoom", "presses the button to zoom in", "the map is nearer", click(`button "Zoom in"`), is(`map.getZoom()`, 6)),
			does("wheel", "turns the wheel over the map", "the map is nearer",
				browser.Do("hover", suite.With("selector", "#m", "wheel_y", -240)), is(`map.getZoom() > 5`, true)),
			does("drag", "drags the map along a path", "its centre moves",
				browser.Do("drag",
					suite.With("path",
						[]any{suite.With("x", 450, "y", 300), suite.With("x", 400, "y", 300), suite.With("x", 300, "y", 300)})),
				is(`map.getCenter().lng > 13`, true)),
			does("marker", "clicks the marker by its name", "its popup is in the outline", click(`"Map marker"`),
				is(`mk.getPopup().isOpen()`, true), shows("Hello Munich")),
			does("keys", "focuses the map and presses the arrow", "its centre moves", clickOn("canvas"), key("ArrowRight"),
				is(`map.getCenter().lng > 11.6`, true)),
		),
		lib("echarts", "echarts",
			does("bar", "clicks a bar by its place", "the chart tells which", at(158, 200), is(`log.join()`, "A")),
			does("legend", "clicks the legend by its place", "the series is off", at(270, 24), is(`log.join()`, "false")),
		),
		lib("chartjs", "chart.js",
			does("bar", "clicks a bar by its place", "the chart tells which", at(150, 200), is(`log.join()`, "0")),
			does("legend", "clicks the legend by its place", "the series is off", at(265, 24), is(`ch.isDatasetVisible(0)`, false)),
		),
	}
}
