import AirDatepicker from 'air-datepicker'
import en from 'air-datepicker/locale/en'
window.p = new (AirDatepicker.default || AirDatepicker)('#d', { startDate: new Date(2026, 2, 10), locale: en.default || en, dateFormat: 'yyyy-MM-dd', autoClose: true })
window.ready = true
