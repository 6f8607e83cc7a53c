// go run main.go form|multipart|streamed|create-part
package main

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
)

var fields = [][2]string{
	{"grant_type", "none"},
	{"client_id", os.Getenv("CLIENT_ID")},
	{"client_secret", os.Getenv("CLIENT_SECRET")},
	{"scope", "push_notifications reports"},
}

func main() {
	address := os.Getenv("TOKEN_URL")
	switch os.Args[1] {
	case "form":
		values := url.Values{}
		for _, field := range fields {
			values.Set(field[0], field[1])
		}
		http.PostForm(address, values)
	case "multipart", "create-part":
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for _, field := range fields {
			write(form, field)
		}
		form.Close()
		http.Post(address, form.FormDataContentType(), &body)
	case "streamed":
		reader, writer := io.Pipe()
		form := multipart.NewWriter(writer)
		go func() {
			for _, field := range fields {
				form.WriteField(field[0], field[1])
			}
			form.Close()
			writer.Close()
		}()
		http.Post(address, form.FormDataContentType(), reader)
	}
}

func write(form *multipart.Writer, field [2]string) {
	if os.Args[1] == "multipart" {
		form.WriteField(field[0], field[1])
		return
	}
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", `form-data; name="`+field[0]+`"`)
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Transfer-Encoding", "8bit")
	part, _ := form.CreatePart(header)
	io.WriteString(part, field[1])
}
