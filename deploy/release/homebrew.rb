# A release fills in this template. A tap has the result as Formula/drydock.rb. Without a version, Homebrew reads 64 from the names of the archives.
class Drydock < Formula
  desc "Upgrade fleets of Kubernetes clusters and maintain nodes safely"
  homepage "https://drydock.dev"
  version "{{ .Number }}"
  license "Apache-2.0"
{{- define "archive" }}
      url "{{ .URL }}"
      sha256 "{{ .SHA256 }}"
{{- end }}

  on_macos do
{{- with .Of "darwin" "arm64" }}
    on_arm do
{{- template "archive" . }}
    end
{{- end }}
{{- with .Of "darwin" "amd64" }}
    on_intel do
{{- template "archive" . }}
    end
{{- end }}
  end

  on_linux do
{{- with .Of "linux" "arm64" }}
    on_arm do
{{- template "archive" . }}
    end
{{- end }}
{{- with .Of "linux" "amd64" }}
    on_intel do
{{- template "archive" . }}
    end
{{- end }}
  end

  def install
    bin.install "drydock"
    generate_completions_from_executable(bin/"drydock", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/drydock --version")
  end
end
