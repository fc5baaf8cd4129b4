package win32

import (
	"fmt"
	"math"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// The methods of Windows Runtime that this package calls, in the order of
// runtimeMethods.
const (
	factoryActivate = iota
	asyncStatus
	asyncErrorCode
	asyncCancel
	asyncClose
	operationResults
	referenceValue
	locatorPutAccuracy
	locatorStatus
	locatorPosition
	positionCoordinate
	coordinateLatitude
	coordinateLongitude
	coordinateAltitude
	coordinateAccuracy
	coordinateAltitudeAccuracy
	coordinateHeading
	coordinateSpeed
	coordinateTimestamp
	accessOfClass
	accessStatus
)

// runtimeMethods returns their places, which a test holds against the documented order. Each table
// begins with the three of IUnknown and the three of IInspectable.
var runtimeMethods = [...]method{
	factoryActivate:            {"IActivationFactory", "ActivateInstance", 6},
	asyncStatus:                {"IAsyncInfo", "get_Status", 7},
	asyncErrorCode:             {"IAsyncInfo", "get_ErrorCode", 8},
	asyncCancel:                {"IAsyncInfo", "Cancel", 9},
	asyncClose:                 {"IAsyncInfo", "Close", 10},
	operationResults:           {"IAsyncOperation", "GetResults", 8},
	referenceValue:             {"IReference", "get_Value", 6},
	locatorPutAccuracy:         {"IGeolocator", "put_DesiredAccuracy", 7},
	locatorStatus:              {"IGeolocator", "get_LocationStatus", 12},
	locatorPosition:            {"IGeolocator", "GetGeopositionAsyncWithAgeAndTimeout", 14},
	positionCoordinate:         {"IGeoposition", "get_Coordinate", 6},
	coordinateLatitude:         {"IGeocoordinate", "get_Latitude", 6},
	coordinateLongitude:        {"IGeocoordinate", "get_Longitude", 7},
	coordinateAltitude:         {"IGeocoordinate", "get_Altitude", 8},
	coordinateAccuracy:         {"IGeocoordinate", "get_Accuracy", 9},
	coordinateAltitudeAccuracy: {"IGeocoordinate", "get_AltitudeAccuracy", 10},
	coordinateHeading:          {"IGeocoordinate", "get_Heading", 11},
	coordinateSpeed:            {"IGeocoordinate", "get_Speed", 12},
	coordinateTimestamp:        {"IGeocoordinate", "get_Timestamp", 13},
	accessOfClass:              {"IDeviceAccessInformationStatics", "CreateFromDeviceClass", 8},
	accessStatus:               {"IDeviceAccessInformation", "get_CurrentStatus", 8},
}

//lint:file-ignore U1000 some are used in files for Windows only

// The classes that tell where the device is and whether this program may know, and
// the interfaces that are asked for by their IDs.
const (
	classGeolocator = "Windows.Devices.Geolocation.Geolocator"
	classAccess     = "Windows.Devices.Enumeration.DeviceAccessInformation"

	idActivationFactory = "00000035-0000-0000-c000-000000000046"
	idAsyncInfo         = "00000036-0000-0000-c000-000000000046"
	idGeolocator        = "a9c3bf62-4524-4989-8aa9-de019d2e551f"
	idAccessStatics     = "574bd3d3-5f30-45cd-8a94-724fe5973084"
)

// Values of Windows Runtime's enumerations.
const (
	accuracyDefault, accuracyHigh              = 0, 1    // PositionAccuracy
	statusNoData, statusOff, statusNever       = 2, 3, 5 // PositionStatus: NoData, Disabled, NotAvailable
	asyncStarted, asyncCompleted               = 0, 1    // AsyncStatus
	asyncCanceled, asyncFailed                 = 2, 3
	deviceLocation                             = 6    // DeviceClass
	accessDeniedByPerson, accessDeniedBySystem = 2, 3 // DeviceAccessStatus
)

// Results of the location service beside those of UI Automation.
const (
	resultAborted     = 0x80004004 // E_ABORT: location is off for this program
	resultNoClass     = 0x80040154 // REGDB_E_CLASSNOTREG
	resultNoFactory   = 0x80040111 // CLASS_E_CLASSNOTAVAILABLE
	resultNoModule    = 0x8007007E // ERROR_MOD_NOT_FOUND
	resultNoProcedure = 0x8007007F // ERROR_PROC_NOT_FOUND
	resultServiceOff  = 0x80070422 // ERROR_SERVICE_DISABLED
	resultCancelled   = 0x800704C7 // ERROR_CANCELLED
	resultTimedOut    = 0x800705B4 // ERROR_TIMEOUT
	resultWaitedLong  = 0x80070102 // WAIT_TIMEOUT
)

// locationError returns what an answer of the location service means; nil for a good
// one.
func locationError(what string, hr uint32) error {
	switch hr {
	case resultDenied, resultAborted:
		return locationDenied()
	case resultServiceOff:
		return &platform.MissingError{
			What: "Windows' Geolocation Service is disabled.",
			Fix:  `Let it start (as an administrator: "sc config lfsvc start= demand"), ` + platform.OrFixed,
		}
	case resultCancelled, resultTimedOut, resultWaitedLong:
		return platform.ErrNoFix
	case resultNoClass, resultNoFactory, resultNoModule, resultNoProcedure, resultNotDone, resultNoInterface:
		return noLocation(fmt.Sprintf("%s answers 0x%08X", what, hr))
	}
	if hr < 0x80000000 {
		return nil
	}
	return &ResultError{What: what, Result: hr}
}

// statusError returns what a PositionStatus is in the way of a position; nil if it is
// not.
func statusError(status int32) error {
	switch status {
	case statusOff:
		return locationDenied()
	case statusNever:
		return noLocation("its status is NotAvailable")
	case statusNoData:
		return platform.ErrNoFix
	}
	return nil
}

// accessError returns what a DeviceAccessStatus is in the way of a position; nil if it
// is not: of an unspecified one Windows asks the person.
func accessError(status int32) error {
	if status == accessDeniedByPerson || status == accessDeniedBySystem {
		return locationDenied()
	}
	return nil
}

func noLocation(why string) error {
	return &platform.MissingError{
		What: "This Windows has no location service: " + why + ".", Fix: "Use Windows 10 or newer, " + platform.OrFixed,
	}
}

func locationDenied() error {
	return &platform.MissingError{
		What: "Windows does not let this program know where the device is.",
		Fix: `Turn on location services and "Let desktop apps access your location" in Settings, Privacy & security, Location ` +
			`(open "ms-settings:privacy-location"), ` + platform.OrFixed,
		Permission: true,
	}
}

// perSecond is how many units of Windows Runtime's times are a second.
const perSecond = int64(time.Second / (100 * time.Nanosecond))

// moment reads a DateTime: units of 100 ns since 1601.
func moment(units int64) time.Time {
	const from1601 = 11_644_473_600 // seconds to 1970
	return time.Unix(units/perSecond-from1601, units%perSecond*100)
}

// span returns a TimeSpan, in units of 100 ns; at least 0.
func span(d time.Duration) int64 { return int64(max(d, 0) / (100 * time.Nanosecond)) }

// known returns a number that a source may leave out.
func known(f float64, ok bool) *float64 {
	if !ok || math.IsNaN(f) {
		return nil
	}
	return &f
}
