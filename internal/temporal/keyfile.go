package temporal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const (
	// keySize is the size in bytes of a key of AES-256.
	keySize = 32
	// keyFileInterval is the interval at which a file with keys is read again while it is used. A file with a missing key is read at once, but not more often than
	// keyFileRetry.
	keyFileInterval = 5 * time.Second
	keyFileRetry    = time.Second
)

// keyID is the form of the id of a key, which Temporal shows.
var keyID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// KeyFile is a file with the keys of AES-256-GCM: the first encrypts, all decrypt. A changed file is read again. While it is broken, the keys before stay.
type KeyFile struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	keys keySet
	// text is the content that was read last, at the time of read.
	text []byte
	read time.Time
}

// keySet are the keys in a file.
type keySet struct {
	current string
	byID    map[string]cipher.AEAD
}

// ReadKeyFile reads a key file. It logs when a changed file takes effect, or cannot.
func ReadKeyFile(path string, log *slog.Logger) (*KeyFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &KeyFile{path: path, log: log, keys: keys, text: text, read: time.Now()}, nil
}

// Encrypt implements Keys. The nonce is random and precedes the encrypted bytes.
func (f *KeyFile) Encrypt(plain []byte) (string, []byte) {
	keys := f.keysWithin(keyFileInterval)
	return keys.current, keys.byID[keys.current].Seal(nil, nil, plain, nil)
}

// Decrypt implements Keys.
func (f *KeyFile) Decrypt(keyID string, encrypted []byte) ([]byte, error) {
	plain, err := f.keysWithin(keyFileInterval).decrypt(keyID, encrypted)
	if err != nil { // the key may have been added since
		plain, err = f.keysWithin(keyFileRetry).decrypt(keyID, encrypted)
	}
	switch {
	case errors.Is(err, errNoKey):
		return nil, &KeyError{keyID, "which the key file " + f.path + " does not have: add it there, behind the first one"}
	case err != nil:
		return nil, &KeyError{keyID, "but not with the key of this id in the key file " + f.path + ", or it was changed since: put back the key that encrypted it"}
	}
	return plain, nil
}

var errNoKey = errors.New("no such key")

func (s keySet) decrypt(keyID string, encrypted []byte) ([]byte, error) {
	key, known := s.byID[keyID]
	if !known {
		return nil, errNoKey
	}
	return key.Open(nil, nil, encrypted, nil)
}

// keysWithin returns keys that were in the file at most so long ago.
func (f *KeyFile) keysWithin(age time.Duration) keySet {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.read) < age {
		return f.keys
	}
	f.read = time.Now()
	text, err := os.ReadFile(f.path)
	if err == nil && bytes.Equal(text, f.text) {
		return f.keys
	}
	var keys keySet
	if err == nil {
		f.text = text
		keys, err = parseKeys(text)
	}
	if err != nil {
		f.log.Error("The key file cannot be read; the keys that were in it stay in use", "file", f.path, "error", err)
		return f.keys
	}
	f.keys = keys
	f.log.Info("The key file has changed", "file", f.path, "keys", len(keys.byID), "current", keys.current)
	return f.keys
}

// parseKeys reads the content of a key file. Errors never contain a key.
func parseKeys(text []byte) (keySet, error) {
	var file struct {
		Keys []struct {
			ID  string `json:"id"`
			Key string `json:"key"`
		} `json:"keys"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return keySet{}, errors.New("the file is not YAML of the form keys: [{id: ..., key: ...}]")
	}
	var problems field.ErrorList
	keys := keySet{byID: map[string]cipher.AEAD{}}
	if len(file.Keys) == 0 {
		problems = append(problems, field.Required(field.NewPath("keys"), "the file has no key"))
	}
	for i, entry := range file.Keys {
		path := field.NewPath("keys").Index(i)
		if !keyID.MatchString(entry.ID) {
			problems = append(problems, field.Invalid(path.Child("id"), entry.ID, "must have 1 to 63 letters, digits, dots, hyphens or underscores, and no mark at an end"))
		}
		if keys.byID[entry.ID] != nil {
			problems = append(problems, field.Duplicate(path.Child("id"), entry.ID))
		}
		key, err := newAEAD(entry.Key)
		if err != nil {
			problems = append(problems, field.Invalid(path.Child("key"), field.OmitValueType{}, err.Error()))
		}
		keys.byID[entry.ID] = key
	}
	if len(problems) > 0 {
		return keySet{}, problems.ToAggregate()
	}
	keys.current = file.Keys[0].ID
	return keys, nil
}

func newAEAD(encoded string) (cipher.AEAD, error) {
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("must be %d bytes in Base64, as from `openssl rand -base64 %[1]d`", keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errors.New("is not a key of AES")
	}
	return cipher.NewGCMWithRandomNonce(block)
}
