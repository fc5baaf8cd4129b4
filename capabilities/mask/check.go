package mask

import (
	"strconv"
	"strings"
)

// only returns the letters and digits of a number, in capitals.
func only(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z':
			return r
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		}
		return -1
	}, s)
}

// digits reports whether a number has so many.
func digits(least, most int) func(string) bool {
	return func(s string) bool {
		n := len(only(s))
		return n >= least && n <= most
	}
}

// card holds for the numbers of payment cards: 13 to 19 digits with Luhn's check digit.
func card(s string) bool {
	s = only(s)
	sum, same := 0, true
	for i := range len(s) {
		d := int(s[len(s)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		same = same && s[i] == s[0]
	}
	return len(s) >= 13 && len(s) <= 19 && sum%10 == 0 && !same
}

// iban holds for IBANs, by ISO 13616: 97 divides them with a rest of 1.
func iban(s string) bool {
	s = only(s)
	return len(s) >= 15 && len(s) <= 34 && mod97(s[4:]+s[:4]) == 1
}

// mod97 is the rest of a number in which A is 10 and Z is 35.
func mod97(s string) int {
	rest := 0
	for _, c := range []byte(s) {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest
}

// ssn holds for the numbers of US social security that are given out.
func ssn(s string) bool {
	area, group, serial := s[:3], s[4:6], s[7:]
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// nino holds for British national insurance numbers.
func nino(s string) bool {
	s = only(s)
	return !strings.ContainsAny(s[:2], "DFIQUV") && s[1] != 'O' && !strings.Contains("BG GB NK KN TN NT ZZ", s[:2])
}

// dni holds for Spanish DNI and NIE, by their letter.
func dni(s string) bool {
	s = only(s)
	number := s[:len(s)-1]
	if i := strings.IndexByte("XYZ", number[0]); i >= 0 {
		number = strconv.Itoa(i) + number[1:]
	}
	n, err := strconv.Atoi(number)
	return err == nil && len(number) == 8 && "TRWAGMYFPDXBNJZSQVHLCKE"[n%23] == s[len(s)-1]
}

// nir holds for French numbers of social security, by their key.
func nir(s string) bool {
	s = only(s)
	n, err := strconv.ParseInt(s[:13], 10, 64)
	key, keyErr := strconv.ParseInt(s[13:], 10, 64)
	return err == nil && keyErr == nil && 97-n%97 == key
}

// taxID holds for German tax numbers of persons, by ISO 7064 MOD 11,10: one digit of the first
// ten stands there two or three times.
func taxID(s string) bool {
	s = only(s)
	product, seen := 10, [10]int{}
	for _, c := range []byte(s[:10]) {
		seen[c-'0']++
		sum := (int(c-'0') + product) % 10
		if sum == 0 {
			sum = 10
		}
		product = sum * 2 % 11
	}
	twice := 0
	for _, n := range seen {
		if n > 3 {
			return false
		}
		if n > 1 {
			twice++
		}
	}
	return twice == 1 && (11-product)%10 == int(s[10]-'0')
}
